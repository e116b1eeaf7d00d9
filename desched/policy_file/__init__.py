"""The policy as people write it, and how it becomes the values of `desched.policy`.

`sections` has one module for each section of the file: its keys, and what they mean.
`desched.policy_keys` is what all of them are made of. `reading` keeps lines and words what is
wrong, and `loading` joins them.
"""
