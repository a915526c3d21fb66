/** TorchServe, vLLM, Ray Serve and Docker Compose. */
import { stringify } from 'yaml'
import { Knobs, unusedNote } from '../../trials/launchers/server-files/knobs.ts'
import { header, oneLine, type SpecFile } from './manifest.ts'
import type { Serving } from './serving.ts'
import { SpecError, startupSeconds } from './serving.ts'

const yaml = (data: unknown): string => stringify(JSON.parse(JSON.stringify(data)), { lineWidth: 0, version: '1.1' })

/** `model-config.yaml` of a TorchServe model archive. */
export function torchserveSpec(serving: Serving): SpecFile[] {
  const knobs = new Knobs(serving.configuration)
  const workers = knobs.number('instances', 'workers')
  const delayMs = knobs.number('maxBatchDelay', 'maxDelayMs')
  const config = {
    minWorkers: knobs.number('minWorkers') ?? workers,
    maxWorkers: knobs.number('maxWorkers') ?? workers,
    batchSize: knobs.number('batchSize', 'maxBatchSize'),
    // Whole milliseconds only.
    maxBatchDelay: delayMs === undefined ? undefined : Math.max(1, Math.round(delayMs)),
    jobQueueSize: knobs.number('jobQueueSize', 'queueLimit'),
    startupTimeout: startupSeconds(serving),
    deviceType: serving.resources.gpu ? 'gpu' : 'cpu',
  }
  return [{ name: 'model-config.yaml', text: `${header(serving, unusedNote(knobs))}${yaml(config)}` }]
}

/** `serve.sh` with the vLLM command. */
export function vllmSpec(serving: Serving): SpecFile[] {
  const knobs = new Knobs(serving.configuration)
  const { gpu, gpuShare, gpus } = serving.resources
  const flags: readonly [string, number | string | undefined][] = [
    ['max-num-seqs', knobs.number('maxNumSeqs', 'batchSize', 'maxBatchSize')],
    ['max-num-batched-tokens', knobs.number('maxNumBatchedTokens')],
    ['gpu-memory-utilization', knobs.number('gpuMemoryUtilization') ?? (gpu && gpuShare < 1 ? gpuShare : undefined)],
    ['max-model-len', knobs.number('maxModelLen', 'sequenceLength')],
    ['tensor-parallel-size', knobs.number('tensorParallelSize') ?? (gpus > 1 ? gpus : undefined)],
    ['dtype', dtypeOf(knobs.value('dtype', 'precision'))],
  ]
  const model = oneLine(serving.modelUri ?? serving.model).replaceAll("'", `'\\''`)
  const lines = [
    `exec vllm serve '${model}'`,
    ...flags.filter(([, value]) => value !== undefined).map(([name, value]) => `--${name} ${value}`),
  ]
  return [{ name: 'serve.sh', text: `#!/bin/sh\n${header(serving, unusedNote(knobs))}${lines.join(' \\\n  ')}\n` }]
}

function dtypeOf(precision: number | string | undefined): string | undefined {
  return precision === undefined ? undefined : ({ fp16: 'float16', bf16: 'bfloat16', fp32: 'float32' }[String(precision)] ?? 'auto')
}

/** `serve.yaml` of a Ray Serve application: one deployment, tuned values in its user_config. */
export function raySpec(serving: Serving, importPath?: string): SpecFile[] {
  if (!importPath) throw new SpecError('Ray Serve needs the place of the application', 'give --import-path, e.g. serve_app:app')
  const { cpuCores, gpu, gpus, gpuShare, memoryMiB } = serving.resources
  const tuned = Object.fromEntries(
    Object.entries(serving.configuration).filter(([name]) => !/^(cpuCores|memoryMiB|gpu|gpus|gpuMemoryPercent|migProfile)$/.test(name)),
  )
  const { inFlight } = serving
  const config = {
    applications: [
      {
        name: serving.name,
        route_prefix: `/${serving.name}`,
        import_path: importPath,
        deployments: [
          {
            name: serving.model,
            ...(inFlight === undefined
              ? { num_replicas: serving.replicas }
              : {
                  max_ongoing_requests: inFlight,
                  autoscaling_config: {
                    min_replicas: serving.minReplicas,
                    max_replicas: serving.maxReplicas,
                    target_ongoing_requests: Math.max(1, Math.round(inFlight * (1 - serving.headroom))),
                  },
                }),
            ray_actor_options: {
              num_cpus: cpuCores,
              ...(gpu ? { num_gpus: gpuShare < 1 ? gpuShare : gpus } : {}),
              memory: memoryMiB * 1024 * 1024,
            },
            ...(Object.keys(tuned).length > 0 ? { user_config: tuned } : {}),
          },
        ],
      },
    ],
  }
  const notes = inFlight === undefined ? [] : [`max_ongoing_requests ${inFlight} is Little's law at the capacity: rate x mean latency`]
  return [{ name: 'serve.yaml', text: `${header(serving, notes)}${yaml(config)}` }]
}

/** `compose.yaml`: one service, its replicas on this machine. */
export function composeSpec(serving: Serving): SpecFile[] {
  const { container, resources } = serving
  const files = container.files ?? []
  const config = {
    services: {
      [serving.name]: {
        image: container.image,
        entrypoint: container.command,
        command: container.args,
        ...(container.env ? { environment: container.env } : {}),
        // The host's ports are given out by Docker: several replicas cannot share one.
        ports: [String(container.port)],
        healthcheck: {
          test: ['CMD-SHELL', `wget -q -O /dev/null http://127.0.0.1:${container.port}${container.readyPath} || exit 1`],
          interval: '10s',
          start_period: `${startupSeconds(serving)}s`,
        },
        ...(files.length > 0 ? { configs: files.map((file, i) => ({ source: `file-${i}`, target: file.path })) } : {}),
        deploy: {
          replicas: serving.replicas,
          resources: {
            limits: { cpus: String(resources.cpuCores), memory: `${Math.ceil(resources.memoryMiB)}m` },
            ...(resources.gpu ? { reservations: { devices: [{ driver: 'nvidia', count: resources.gpus, capabilities: ['gpu'] }] } } : {}),
          },
        },
      },
    },
    // A dollar sign begins an interpolation in Compose files.
    ...(files.length > 0
      ? { configs: Object.fromEntries(files.map((file, i) => [`file-${i}`, { content: file.contents.replaceAll('$', '$$$$') }])) }
      : {}),
  }
  const share = resources.gpu && resources.gpuShare < 1 ? ['Compose gives whole GPUs: the server must hold itself to its part'] : []
  return [{ name: 'compose.yaml', text: `${header(serving, share)}${yaml(config)}` }]
}
