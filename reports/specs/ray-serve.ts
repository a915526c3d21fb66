/**
 * Ray Serve: `serve.yaml` of an application of the user's own, one deployment, tuned values in its
 * user_config.
 */
import { resourceParameters } from '../../trials/resources.ts'
import { podlessNotes } from './laid-over.ts'
import { header, type Manifest, type SpecFile, yamlOf } from './manifest.ts'
import { behaviour, unscaledNote } from './scaling.ts'
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

function raySpec(serving: Serving, options: SpecOptions): SpecFile[] {
  const { config, notes } = serveConfig(serving, options)
  return [
    {
      name: 'serve.yaml',
      text: `${header(serving, [...notes, ...podlessNotes(serving)])}${yamlOf(config)}`,
    },
  ]
}

/**
 * What Ray calls a GPU's kind (ray.util.accelerators), of which it knows no sizes; absent: it knows
 * none by that name.
 */
const acceleratorKinds: ReadonlySet<string> = new Set(
  'K80 P4 P100 T4 V100 L4 L40 L40S A10G A10 A30 A40 A100 H100 H200 H20 B200 B300 GB200'.split(' '),
)
const acceleratorOf = (gpu: string): string | undefined => {
  const [kind = ''] = gpu.split('-')
  return acceleratorKinds.has(kind) ? kind : undefined
}

/**
 * The application with what was tuned, as `serve deploy` and a RayService take it. @throws
 * SpecError where its place is not known
 */
export function serveConfig(
  serving: Serving,
  { importPath }: SpecOptions,
): { readonly config: Manifest; readonly notes: readonly string[] } {
  if (!importPath)
    throw new SpecError(
      'Ray Serve needs the place of the application',
      'give --import-path, e.g. serve_app:app',
    )
  const { gpu, gpus, gpuShare } = serving.resources
  const { cpuCores, memoryMiB } = serving.held
  const tuned = Object.fromEntries(
    Object.entries(serving.configuration).filter(
      ([name]) => !(resourceParameters as readonly string[]).includes(name),
    ),
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
                    target_ongoing_requests: Math.max(
                      1,
                      Math.round(inFlight * (1 - serving.headroom)),
                    ),
                    downscale_delay_s:
                      behaviour(serving).behavior?.scaleDown.stabilizationWindowSeconds,
                  },
                }
              : { num_replicas: serving.replicas }),
            graceful_shutdown_timeout_s: serving.held.graceSeconds,
            ray_actor_options: {
              num_cpus: cpuCores,
              ...(gpu
                ? { num_gpus: gpuShare < 1 ? gpuShare : gpus, accelerator_type: acceleratorOf(gpu) }
                : {}),
              memory: memoryMiB === undefined ? undefined : memoryMiB * 1024 * 1024,
            },
            ...(Object.keys(tuned).length > 0 ? { user_config: tuned } : {}),
          },
        ],
      },
    ],
  }
  const notes = scales
    ? [`max_ongoing_requests ${inFlight} is Little's law at the capacity: rate x mean latency`]
    : [unscaledNote]
  return { config, notes }
}
