"""What may be disturbed: the policy document, its checks, and its resolved form.

`policy` is what planning reads; `schema` is the document as people write it; `loading` turns the
one into the other and is the only module here that reads files.
"""
