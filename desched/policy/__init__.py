"""What may be disturbed: the policy document, its checks, and its resolved form.

`policy` is what planning reads; `document` is the policy as people write it. `loading` turns one
into the other: `reading` keeps lines and words what is wrong, `resolution` gives each key its
meaning, and `compatibility` has the defaults of those that are not written.
"""
