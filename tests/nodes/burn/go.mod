// What containers of the tests on real nodes run.
module desched.test/burn

go 1.26.0
