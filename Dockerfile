# docker build -t autotune .
# docker run --gpus all --ipc=host --ulimit memlock=-1 -v "$PWD":/work autotune run --instance local
FROM nvidia/cuda:13.0.1-runtime-ubuntu24.04

RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

ENV PATH=/opt/autotune/bin:$PATH \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# The large, rarely changing part first.
COPY constraints.txt /tmp/
RUN python3 -m venv /opt/autotune \
    && pip install --no-cache-dir --constraint /tmp/constraints.txt torch

# The whole context: the package has links to folders beside it.
COPY . /src
RUN pip install --no-cache-dir --constraint /src/constraints.txt "/src[postgresql,ray,report,s3]" \
    && rm -rf /src /tmp/constraints.txt

RUN useradd --create-home --uid 10001 autotune \
    && install --directory --owner autotune /work
USER 10001
WORKDIR /work

ENTRYPOINT ["autotune"]
CMD ["--help"]
