# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# The image of one binary, which COMMAND names. docs/images.md describes how to build it, and how
# `make images` makes the same without a container engine; a test of hack/release/images compares the
# two.
ARG COMMAND=scheduler
# The only external image, by digest: golang@sha256:... of the Go that go.mod requires. Its
# compiler and its certificates go into the images.
ARG GO_IMAGE
# The minor of Kubernetes that the scheduler is built for; the others are one build for all.
ARG KUBE=1.37

# Go compiles for every platform on the builder's own.
FROM --platform=${BUILDPLATFORM} ${GO_IMAGE} AS build
ARG COMMAND
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=unknown
ARG KUBE
ENV GOCACHE=/go/cache
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/go/cache \
    make bin/${TARGETOS}-${TARGETARCH}/stowage-${COMMAND} PLATFORMS=${TARGETOS}/${TARGETARCH} VERSION=${VERSION} KUBE=${KUBE} \
    && install -D bin/${TARGETOS}-${TARGETARCH}/stowage-${COMMAND} /out/stowage-${COMMAND}

# For API servers with certificates of public authorities. The user is a number: for
# runAsNonRoot, kubelet rejects names.
FROM scratch AS nonroot
ARG VERSION=unknown
LABEL org.opencontainers.image.version="${VERSION}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 65532:65532

FROM nonroot AS scheduler
ARG VERSION=unknown
ARG KUBE
LABEL org.opencontainers.image.version="${VERSION}-kube${KUBE}"
ENTRYPOINT ["/usr/local/bin/stowage-scheduler"]

FROM nonroot AS extender
ENTRYPOINT ["/usr/local/bin/stowage-extender"]

FROM nonroot AS controller
ENTRYPOINT ["/usr/local/bin/stowage-controller"]

FROM nonroot AS pav-reporter
ENTRYPOINT ["/usr/local/bin/stowage-pav-reporter"]

# Disks belong to root, and only root mounts. These need no other program.
FROM scratch AS root
ARG VERSION=unknown
LABEL org.opencontainers.image.version="${VERSION}"
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER 0:0

FROM root AS provisioner
ENTRYPOINT ["/usr/local/bin/stowage-provisioner"]

FROM root AS csi
ENTRYPOINT ["/usr/local/bin/stowage-csi"]

FROM ${COMMAND}
ARG COMMAND
ARG REVISION=
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="stowage-${COMMAND}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="The Stowage Authors"
COPY --from=build /out/ /usr/local/bin/
