/** Ray Serve: `serve.yaml` of an application of the user's own, one deployment, tuned values in its user_config. */
import { header, type SpecFile, yamlOf } from './manifest.ts'
import { unscaledNote } from './scaling.ts'
import type { Serving } from './serving.ts'
import { SpecError } from './spec-error.ts'
import type { SpecOptions, SpecTarget } from './target.ts'

export const target: SpecTarget = {
  title: 'Ray Serve',
  servers: ['ray'],
  implies: 'ray',
  takes: ['importPath'],
  imageless: true,
  refusesModelUri: {
    why: 'the application loads its own weights',
    hint: 'name them in the application of --import-path, and leave --model-uri out',
  },
  render: raySpec,
}

function raySpec(serving: Serving, { importPath }: SpecOptions): SpecFile[] {
  if (!importPath) throw new SpecError('Ray Serve needs the place of the application', 'give --import-path, e.g. serve_app:app')
  const { gpu, gpus, gpuShare } = serving.resources
  const { cpuCores, memoryMiB } = serving.held
  const tuned = Object.fromEntries(
    Object.entries(serving.configuration).filter(([name]) => !/^(cpuCores|memoryMiB|gpu|gpus|gpuMemoryPercent|migProfile)$/.test(name)),
  )
  const { inFlight } = serving
  const scales = serving.scalable && inFlight !== undefined
  const config = {
    applications: [
      {
        name: serving.name,
        route_prefix: `/${serving.name}`,
        import_path: importPath,
        deployments: [
          {
            name: serving.model,
            ...(scales
              ? {
                  max_ongoing_requests: inFlight,
                  autoscaling_config: {
                    min_replicas: serving.minReplicas,
                    max_replicas: serving.maxReplicas,
                    target_ongoing_requests: Math.max(1, Math.round(inFlight * (1 - serving.headroom))),
                  },
                }
              : { num_replicas: serving.replicas }),
            ray_actor_options: {
              num_cpus: cpuCores,
              ...(gpu ? { num_gpus: gpuShare < 1 ? gpuShare : gpus } : {}),
              memory: memoryMiB === undefined ? undefined : memoryMiB * 1024 * 1024,
            },
            ...(Object.keys(tuned).length > 0 ? { user_config: tuned } : {}),
          },
        ],
      },
    ],
  }
  const notes = scales ? [`max_ongoing_requests ${inFlight} is Little's law at the capacity: rate x mean latency`] : [unscaledNote]
  return [{ name: 'serve.yaml', text: `${header(serving, notes)}${yamlOf(config)}` }]
}
