# Any image of Debian's kind with Python 3.11 or later and its venv module will do.
ARG PYTHON_IMAGE=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${PYTHON_IMAGE} AS builder
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source

# Another lock adds an extra, such as google.txt.
ARG LOCK=runtime.txt

# The locks come first: an edit of the code does not fetch the dependencies again.
COPY requirements/ requirements/
RUN python3 -m venv /build \
 && /build/bin/pip install --require-hashes --requirement requirements/build.txt
RUN python3 -m venv --without-pip /opt/desched \
 && /build/bin/pip --python /opt/desched/bin/python3 install --no-compile \
    --require-hashes --requirement "requirements/${LOCK}"

COPY pyproject.toml README.md LICENSE ./
COPY docs/man/ docs/man/
COPY desched/ desched/
RUN /build/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels . \
 && /build/bin/pip --python /opt/desched/bin/python3 install --no-compile \
    --no-deps --no-index /wheels/desched-*.whl
# What nothing of desched reads, a third of all: the asynchronous copy of the Kubernetes client, what
# Bokeh serves to servers and compiles, numpy's own tests.
RUN cd /opt/desched/lib/python3*/site-packages \
 && rm -r kubernetes/aio bokeh/server/static/js/lib bokeh/server/static/js/compiler.js \
    numpy/*/tests
# Compiled once here: the root file system is read-only when it runs. Nothing is checked against
# its source, which cannot change.
RUN /opt/desched/bin/python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash \
    /opt/desched/lib

FROM ${PYTHON_IMAGE}
COPY --from=builder /opt/desched /opt/desched
ENV PATH=/opt/desched/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# By number, so that Kubernetes can tell that it is not root.
USER 65532:65532
EXPOSE 10258
ENTRYPOINT ["desched"]
