# The node image: plexusd, plexusctl and the shim. It runs the commands of `make image`, which builds the same without
# a container engine:
#   docker build --build-arg COMMIT="$(git rev-parse --short=12 HEAD)" .
# STANDALONE=1 also puts plexus-standalone in (120 MB), PLUGINS=1 the CNI reference plugins.
ARG BUILD_IMAGE=debian:trixie-slim@sha256:a29215f6a35e51e22adffa17f89e9d2ef06214e64a2bad10d765c46aea49f11f

FROM ${BUILD_IMAGE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends make nodejs npm
WORKDIR /src
COPY Makefile package.json package-lock.json .npmrc ./
COPY scripts/system-deps.sh scripts/
RUN make deps
COPY . .
ARG VERSION=0.1.0
ARG COMMIT=unknown
ARG STANDALONE=
ARG PLUGINS=
RUN make image ROOTFS=/rootfs VERSION=${VERSION} COMMIT=${COMMIT} STANDALONE=${STANDALONE} PLUGINS=${PLUGINS}

FROM scratch
COPY --from=build /rootfs /
ARG VERSION=0.1.0
ARG COMMIT=unknown
LABEL org.opencontainers.image.title=plexus \
      org.opencontainers.image.version=${VERSION} \
      org.opencontainers.image.revision=${COMMIT} \
      org.opencontainers.image.licenses=Apache-2.0
ENV PATH=/plexus SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
ENTRYPOINT ["/plexus/node", "/plexus/plexusd.js"]
