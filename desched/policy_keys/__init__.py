"""What every section of a policy file is made of: keys, kinds of values, and notes about them.

The sections of the core are in `desched.policy_file.sections`, those of a plugin in its folder.
"""
