"""What may be disturbed, as planning reads it: the values of a policy.

`desched.policy_file` reads them from the document that people write.
"""
