# The command line and the service in a container; docs/service.md tells how to serve from it:
# docker build -t tuckerkg . && docker run --rm -v "$PWD:/data" tuckerkg demo
FROM python:3.11-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY tuckerkg tuckerkg
# PyTorch first and by its pinned version: anything looser may bring gigabytes of GPU libraries.
RUN python -m venv /opt/tuckerkg \
    && /opt/tuckerkg/bin/pip install --no-cache-dir --constraint constraints.txt torch==2.13.0 \
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
ENTRYPOINT ["tuckerkg"]
CMD ["--help"]
