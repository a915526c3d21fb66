/** Docker Compose: `compose.yaml`, one service with its replicas on one machine. */
import { mapTexts } from '../../../trials/secrets.ts'
import { selectableServers } from '../../figures.ts'
import { buildContainer } from '../container.ts'
import { type Manifest, omitEmpty } from '../manifest.ts'
import { buildComposeStorage, resolveStorage } from '../model-storage.ts'
import { describeMissing } from '../placeholders.ts'
import { describeIgnoredOverlay } from '../pod-overlay.ts'
import { isInnerStage } from '../provenance.ts'
import type { Serving } from '../serving.ts'
import type { SpecContent, SpecOptions, SpecTarget } from '../target.ts'

export const target: SpecTarget = {
  title: 'Docker Compose',
  files: ['compose.yaml'],
  writes: 'one service with its replicas; of a pipeline one for each stage',
  needs: 'Docker Compose',
  scaledBy: 'a fixed number of replicas',
  servers: ['builtin', 'command', 'url', ...selectableServers],
  takes: ['backend'],
  pipeline: { stageUrl: ({ name, container }) => `http://${name}:${container.port}` },
  render: renderCompose,
}

function renderCompose(serving: Serving, { backend }: SpecOptions): SpecContent {
  const { name, resources, requirements } = serving
  const { cpuCores, memoryMiB, sharedMemoryMiB, graceSeconds, startupSeconds } = requirements
  const container = buildContainer(serving, backend)
  const { cachePath, files = [], secretEnv = [] } = container
  const storage = buildComposeStorage(resolveStorage(serving), name)
  // The replicas of a machine share this volume, which outlives them.
  const cacheVolume = `${name}-cache`
  const nameFile = (index: number) => `${name}-file-${index}`
  const project = {
    services: {
      ...storage.services,
      [name]: {
        image: container.image,
        depends_on: omitEmpty({ ...storage.dependsOn, ...dependOnCalls(serving) }),
        entrypoint: container.command,
        command: container.args,
        environment: buildVariables(container),
        // Docker chooses the ports of the host: several replicas cannot share one.
        ports: isInnerStage(serving)
          ? undefined
          : [container.port, container.grpcPort].filter((port) => port !== undefined).map(String),
        shm_size: container.sharedMemory
          ? sharedMemoryMiB === undefined
            ? '1gb'
            : `${sharedMemoryMiB}m`
          : undefined,
        stop_grace_period: `${graceSeconds}s`,
        healthcheck: {
          test: [
            'CMD-SHELL',
            writeHealthProbe(`http://127.0.0.1:${container.port}${container.readyPath}`),
          ],
          interval: '10s',
          start_period: `${startupSeconds}s`,
        },
        volumes: omitEmpty([
          ...storage.mounts,
          ...(cachePath === undefined
            ? []
            : [{ type: 'volume', source: cacheVolume, target: cachePath }]),
        ]),
        configs: omitEmpty(files.map(({ path }, i) => ({ source: nameFile(i), target: path }))),
        deploy: {
          replicas: serving.replicas,
          resources: {
            limits: {
              cpus: cpuCores === undefined ? undefined : String(cpuCores),
              memory: memoryMiB === undefined ? undefined : `${Math.ceil(memoryMiB)}m`,
            },
            reservations: resources.gpu && {
              devices: [{ driver: 'nvidia', count: resources.gpus, capabilities: ['gpu'] }],
            },
          },
        },
      },
    },
    volumes: omitEmpty({
      ...storage.volumes,
      ...(cachePath !== undefined && { [cacheVolume]: {} }),
    }),
    configs: omitEmpty(
      Object.fromEntries(files.map(({ contents }, i) => [nameFile(i), { content: contents }])),
    ),
  }
  return {
    name: 'compose.yaml',
    body: { document: escapeDollars(project, secretEnv) as Manifest },
    notes: [
      ...(secretEnv.length > 0
        ? [
            describeMissing(
              `${secretEnv.join(', ')}: secrets that the environment must contain`,
              'Export them before docker compose up.',
            ),
          ]
        : []),
      ...container.notes,
      ...(resources.gpu && resources.gpuShare < 1
        ? ['Compose assigns whole GPUs: the server itself must keep to its share']
        : []),
      ...describeIgnoredOverlay(serving),
    ],
  }
}

/** Starts a stage after those that it calls, as the trials did. */
const dependOnCalls = ({ stage }: Serving): Manifest =>
  Object.fromEntries(
    (stage?.calls ?? []).map(({ serving }) => [serving, { condition: 'service_healthy' }]),
  )

function buildVariables({
  env,
  secretEnv = [],
  optionalSecretEnv = [],
}: ReturnType<typeof buildContainer>) {
  const variables = {
    ...Object.fromEntries(secretEnv.map((name) => [name, `$(${name})`])),
    // A variable without a value takes it from the user's shell, if it is set there.
    ...Object.fromEntries(optionalSecretEnv.map((name) => [name, null])),
    ...env,
  }
  return env ? variables : omitEmpty(variables)
}

/** Tries wget, curl and node in turn, because images differ; the built-in predictor's has node. */
const writeHealthProbe = (url: string): string =>
  `wget -q -O /dev/null ${url} || curl -fso /dev/null ${url} || node -e "fetch('${url}').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))" || exit 1`

/**
 * Doubles every dollar sign, because Compose interpolates '$' anywhere in the file. Only the
 * variables of secrets stay interpolations.
 */
const escapeDollars = (value: unknown, secretEnv: readonly string[]): unknown =>
  mapTexts(value, (text) =>
    secretEnv.reduce(
      (escaped, name) => escaped.replaceAll(`$$(${name})`, `\${${name}:?export ${name}}`),
      text.replaceAll('$', '$$$$'),
    ),
  )
