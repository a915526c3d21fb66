/** Docker Compose: `compose.yaml`, one service with its replicas on this machine. */
import { mapTexts } from '../../trials/secrets.ts'
import { chosenServers } from '../figures.ts'
import { incomplete } from './incomplete.ts'
import { podlessNotes } from './laid-over.ts'
import { header, type SpecFile, yamlOf } from './manifest.ts'
import { composeStorage, storageOf } from './model-storage.ts'
import { wholeContainer } from './server-pod.ts'
import type { Serving } from './serving.ts'
import type { SpecOptions, SpecTarget } from './target.ts'

export const target: SpecTarget = {
  title: 'Docker Compose',
  files: ['compose.yaml'],
  writes: 'one service with its replicas',
  needs: 'Docker Compose',
  scaledBy: 'a fixed number of replicas',
  servers: ['builtin', 'command', 'url', ...chosenServers],
  takes: ['backend'],
  render: composeSpec,
}

function composeSpec(serving: Serving, { backend }: SpecOptions): SpecFile[] {
  const { resources, held } = serving
  const container = wholeContainer(serving, backend)
  const storage = composeStorage(storageOf(serving))
  const { files = [], secretEnv = [], optionalSecretEnv = [] } = container
  const cache =
    container.cachePath === undefined
      ? []
      : [{ type: 'volume', source: cacheVolume, target: container.cachePath }]
  const mounts = [...storage.mounts, ...cache]
  const volumes = { ...storage.volumes, ...(cache.length > 0 && { [cacheVolume]: {} }) }
  const environment = {
    ...Object.fromEntries(secretEnv.map((name) => [name, `$(${name})`])),
    // Without a value: that of who starts it, if any.
    ...Object.fromEntries(optionalSecretEnv.map((name) => [name, null])),
    ...container.env,
  }
  const limits = {
    cpus: held.cpuCores === undefined ? undefined : String(held.cpuCores),
    memory: held.memoryMiB === undefined ? undefined : `${Math.ceil(held.memoryMiB)}m`,
  }
  const config = {
    services: {
      ...storage.services,
      [serving.name]: {
        image: container.image,
        ...(Object.keys(storage.dependsOn).length > 0 ? { depends_on: storage.dependsOn } : {}),
        entrypoint: container.command,
        command: container.args,
        ...(container.env || Object.keys(environment).length > 0 ? { environment } : {}),
        // The host's ports are given out by Docker: several replicas cannot share one.
        ports: [container.port, container.grpcPort]
          .filter((port) => port !== undefined)
          .map(String),
        ...(container.sharedMemory
          ? { shm_size: held.sharedMemoryMiB === undefined ? '1gb' : `${held.sharedMemoryMiB}m` }
          : {}),
        stop_grace_period: `${held.graceSeconds}s`,
        healthcheck: {
          test: [
            'CMD-SHELL',
            healthProbe(`http://127.0.0.1:${container.port}${container.readyPath}`),
          ],
          interval: '10s',
          start_period: `${held.startupSeconds}s`,
        },
        ...(mounts.length > 0 ? { volumes: mounts } : {}),
        ...(files.length > 0
          ? { configs: files.map((file, i) => ({ source: `file-${i}`, target: file.path })) }
          : {}),
        deploy: {
          replicas: serving.replicas,
          resources: {
            limits,
            ...(resources.gpu
              ? {
                  reservations: {
                    devices: [{ driver: 'nvidia', count: resources.gpus, capabilities: ['gpu'] }],
                  },
                }
              : {}),
          },
        },
      },
    },
    ...(Object.keys(volumes).length > 0 ? { volumes } : {}),
    ...(files.length > 0
      ? {
          configs: Object.fromEntries(
            files.map((file, i) => [`file-${i}`, { content: file.contents }]),
          ),
        }
      : {}),
  }
  const share =
    resources.gpu && resources.gpuShare < 1
      ? ['Compose assigns whole GPUs: the server itself must keep to its share']
      : []
  const secret =
    secretEnv.length > 0
      ? [
          incomplete(
            `${secretEnv.join(', ')}: secrets that the environment must contain`,
            'Export them before docker compose up.',
          ),
        ]
      : []
  return [
    {
      name: 'compose.yaml',
      text: `${header(serving, [...secret, ...container.notes, ...share, ...podlessNotes(serving)])}${yamlOf(plain(config, secretEnv))}`,
    },
  ]
}

/** Shared by the replicas of this machine, and kept when they end. */
const cacheVolume = 'cache'

/** With what the image has: wget, curl, or node, which the built-in predictor's has. */
const healthProbe = (url: string): string =>
  `wget -q -O /dev/null ${url} || curl -fso /dev/null ${url} || node -e "fetch('${url}').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))" || exit 1`

/**
 * A dollar sign begins an interpolation anywhere in a Compose file: only a secret's variable means
 * one.
 */
const plain = (value: unknown, secretEnv: readonly string[]): unknown =>
  mapTexts(value, (text) =>
    secretEnv.reduce(
      (rest, name) => rest.replaceAll(`$$(${name})`, `\${${name}:?export ${name}}`),
      text.replaceAll('$', '$$$$'),
    ),
  )
