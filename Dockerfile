# The node image: plexusd, plexusctl and the shim. Build: docker buildx build --platform linux/amd64,linux/arm64 .
# `make image` builds the same without a registry or a container engine.
ARG BUILD_IMAGE=debian:trixie-slim@sha256:a29215f6a35e51e22adffa17f89e9d2ef06214e64a2bad10d765c46aea49f11f

FROM ${BUILD_IMAGE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
      ca-certificates gcc git make musl-tools npm \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund --loglevel=error
COPY . .
# --standalone also puts plexus-standalone in (120 MB), for nodes without a daemon.
ARG IMAGE_FLAGS=
ARG VERSION=0.0.0
ARG COMMIT=unknown
ENV PATH=/src/node_modules/.bin:${PATH}
RUN make -C shim OUT=../dist/plexus VERSION=${VERSION} COMMIT=${COMMIT} \
    && node scripts/bundle.ts --version ${VERSION} --commit ${COMMIT} \
    && node scripts/bundle.ts --standalone --version ${VERSION} --commit ${COMMIT} \
    && node scripts/image.ts --rootfs /rootfs ${IMAGE_FLAGS}

FROM ${BUILD_IMAGE} AS build-plugins
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates golang \
    && rm -rf /var/lib/apt/lists/*
COPY scripts/image/reference-plugins.sh /
RUN /reference-plugins.sh /plugins

FROM scratch AS plexus
COPY --from=build /rootfs /
ENV PATH=/plexus SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
ENTRYPOINT ["/plexus/node", "/plexus/plexusd.js"]

# With the CNI reference plugins, for nodes that lack them: docker build --target plugins .
FROM plexus AS plugins
COPY --from=build-plugins /plugins /plexus/plugins

# Without --target.
FROM plexus
