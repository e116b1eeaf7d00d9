"""What may be disturbed: the policy document, its checks, and its resolved form.

`policy` is what planning reads; `schema` and `schema_…` are the document as people write it.
`loading` turns the one into the other and is the only module here that reads files: `yaml_source`
keeps the lines, `envelope` finds the policy in what it came in, `problems` words what is wrong, and
`resolution` with `plugins`, `rules`, `metrics_source`, `protections` and `pacing` gives each key
its meaning, and `compatibility` to those that are not written.
"""
