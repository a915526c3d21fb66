# The built-in predictor on CPU: serves when run without arguments. Also serves as load generator (`load`).
#   docker build -f deploy/predictor.Dockerfile -t tune-predictor:0.1.0 .
# With ONNX Runtime, for ENGINE=onnx, or llama.cpp, for ENGINE=gguf:
#   docker build -f deploy/predictor.Dockerfile --build-arg PEERS=onnxruntime-node@1.30.0 -t tune-predictor:0.1.0-onnx .
#   docker build -f deploy/predictor.Dockerfile --build-arg PEERS=node-llama-cpp@3.22.1 -t tune-predictor:0.1.0-gguf .
ARG NODE_IMAGE=node:20-bookworm-slim
FROM ${NODE_IMAGE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3 make g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts && npm rebuild sqlite3
COPY . .
# Optional packages are installed last: pruning would take them away again.
ARG PEERS=""
RUN npm run -s build && npm prune --omit=dev --ignore-scripts && if [ -n "$PEERS" ]; then ONNXRUNTIME_NODE_INSTALL=skip NODE_LLAMA_CPP_SKIP_DOWNLOAD=true npm install --no-save --omit=dev $PEERS; fi && find node_modules -name '*.map' -delete

FROM ${NODE_IMAGE}
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8000
COPY --from=build /app/package.json /app/package.json
COPY --from=build /app/node_modules /app/node_modules
COPY --from=build /app/dist /app/dist
# By its number, which a cluster can tell from root.
USER 1000
WORKDIR /app
EXPOSE 8000
ENTRYPOINT ["node", "--single-threaded-gc", "/app/dist/tuner/cli.js"]
CMD ["predictor"]
