"""The policy as people write it, and how it becomes the values of `desched.policy`.

`document` has the shape of the keys. `reading` keeps lines and words what is wrong, `resolution`
gives each key its meaning, and `loading` joins them.
"""
