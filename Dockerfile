# The command line and the service in a container; docs/service.md tells how to serve from it:
# docker build -t tuckerkg . && docker run --rm -v "$PWD:/data" tuckerkg demo
FROM python:3.11-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY tuckerkg tuckerkg
# PyTorch first, by its pinned version and from the index of builds for CPUs: others bring gigabytes of GPU libraries.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN python -m venv /opt/tuckerkg \
    && /opt/tuckerkg/bin/pip install --no-cache-dir --index-url "$TORCH_INDEX" torch==2.13.0 \
    && /opt/tuckerkg/bin/pip install --no-cache-dir --constraint constraints.txt ".[plots,serve]"

FROM python:3.11-slim-bookworm
RUN useradd --create-home --uid 10001 tuckerkg
COPY --from=build /opt/tuckerkg /opt/tuckerkg
ENV PATH="/opt/tuckerkg/bin:$PATH" \
    PYTHONUNBUFFERED=1 \
    MPLCONFIGDIR=/tmp/matplotlib
USER 10001
WORKDIR /data
EXPOSE 8000
# A container that serves is healthy once it answers; one that runs another verb has no service and no health.
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["tuckerkg"]
CMD ["--help"]
