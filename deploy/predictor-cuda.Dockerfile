# The built-in predictor on NVIDIA GPUs: TensorFlow 2.9 through tfjs-node-gpu, which needs CUDA 11.2 and cuDNN 8.1 of the base.
#   docker build -f deploy/predictor-cuda.Dockerfile -t tune-predictor:0.1.0-cuda .
ARG CUDA_IMAGE=nvidia/cuda:11.2.2-cudnn8-runtime-ubuntu20.04
FROM ${CUDA_IMAGE}
ARG NODE_VERSION=20.20.0
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates curl xz-utils python3 make g++ \
  && rm -rf /var/lib/apt/lists/* \
  && curl -fsSL "https://nodejs.org/dist/v${NODE_VERSION}/node-v${NODE_VERSION}-linux-x64.tar.xz" | tar -xJ -C /usr/local --strip-components=1
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts && npm rebuild sqlite3
COPY . .
# Its install script downloads libtensorflow; a peer, so that machines without a GPU do not.
RUN npm run -s build && npm prune --omit=dev --ignore-scripts && npm install --no-save @tensorflow/tfjs-node-gpu@4.22.0
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8000
RUN useradd --uid 1000 node
# By its number, which a cluster can tell from root.
USER 1000
EXPOSE 8000
ENTRYPOINT ["node", "--single-threaded-gc", "/app/dist/tuner/cli.js"]
CMD ["predictor"]
