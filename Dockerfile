# The service in production: dependencies of production only, no shell command before the program, no root.
# Pin the base by digest when you publish: docker buildx imagetools inspect node:24.21.0-bookworm-slim

FROM node:24.21.0-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
# Without scripts and optional parts: those are the embedded database and what the simulators need. The image has its own
# Node, so that of the package is not needed.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund \
  && rm -rf node_modules/node node_modules/node-bin-* node_modules/.bin/node \
  && npm cache clean --force

# What is built: the npm package that the service gives out as /client.tgz, and the console's bundle. Of the optional parts
# they need the compiler, the bundler and Preact.
FROM node:24.21.0-bookworm-slim AS built
WORKDIR /app
COPY package.json package-lock.json tsconfig.json ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund
COPY client client
RUN cd client && npm pack
COPY scripts/build-console.js scripts/build-console.js
COPY console console
RUN node scripts/build-console.js && rm console/dist/*.map

FROM node:24.21.0-bookworm-slim
ENV NODE_ENV=production \
  HOST=0.0.0.0 \
  METRICS_HOST=0.0.0.0 \
  DATA_DIR=/var/lib/handoff \
  NODE_OPTIONS=--max-old-space-size-percentage=60
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY package.json LICENSE ./
COPY src src
COPY --from=built /app/client/src client/src
COPY --from=built /app/client/*.tgz client/
COPY --from=built /app/console/dist console/dist
# Served at /v1/guides.
COPY docs/partners docs/partners
COPY docs/quickstart.md docs/
# The only place that is written to; the root file system can be read only.
RUN install -d -o 10001 -g 10001 -m 0700 /var/lib/handoff
VOLUME /var/lib/handoff
USER 10001:10001
EXPOSE 8080 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.METRICS_PORT || 9464) + '/livez').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "src/main.ts"]
