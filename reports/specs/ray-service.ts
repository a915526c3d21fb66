/**
 * RayService v1 of KubeRay: a Ray Serve application of the user's own, with the tuned values in its
 * user_config, and a cluster with a worker for each replica.
 */
import { resourceParameters } from '../../trials/resources.ts'
import { disruptionBudget, labelsOf, lasting } from './available.ts'
import { imageNotes, imageToFill } from './incomplete.ts'
import { laidOver, overlayNotes, placedPod } from './laid-over.ts'
import { annotationsOf, type Manifest, manifestsYaml, type SpecFile, yamlOf } from './manifest.ts'
import { resourcesBlock } from './pod.ts'
import { claimTemplates, specGpus } from './pod-gpus.ts'
import { behaviour, rangeNote, unscaledNote } from './scaling.ts'
import type { Serving } from './serving.ts'
import { SpecError } from './spec-error.ts'
import type { SpecOptions, SpecTarget } from './target.ts'

export const target: SpecTarget = {
  title: 'RayService',
  files: ['rayservice.yaml'],
  writes: 'RayService v1: the application of `--import-path`, and a worker for each replica',
  needs: 'KubeRay, and an image with the application',
  scaledBy: 'requests in flight, by Ray itself',
  servers: ['ray'],
  implies: 'ray',
  namespaced: true,
  takes: ['importPath'],
  refusesModelUri: {
    why: 'the application loads its own weights',
    hint: 'name them in the application of --import-path, and leave --model-uri out',
  },
  render: rayServiceSpec,
}

/** KubeRay gives a container to Ray whole: what a replica does not hold is the node's own. */
const headResources = { cpu: '2', memory: '4Gi' }
const worker = 'ray-worker'
/** As KubeRay's own samples end a worker: Ray hands its replicas over first. */
const rayStop = { preStop: { exec: { command: ['/bin/sh', '-c', 'ray stop'] } } }

function rayServiceSpec(serving: Serving, options: SpecOptions): SpecFile[] {
  const { config, notes } = serveConfig(serving, options)
  const gpu = specGpus(serving.resources, serving.gpuScheme, serving.dra)
  const { imageNamed, image } = serving.container
  const named = imageNamed ? image : imageToFill
  const labels = labelsOf(serving)
  const several = serving.minReplicas > 1
  const containers = [
    { name: worker, image: named, lifecycle: rayStop, resources: resourcesBlock(serving, gpu) },
  ]
  const spec = { ...lasting(serving, labels, several), containers }
  const pod = placedPod(serving, gpu, spec, worker, { labels })
  const most =
    serving.scalable && serving.inFlight !== undefined ? serving.maxReplicas : serving.replicas
  const service: Manifest = {
    apiVersion: 'ray.io/v1',
    kind: 'RayService',
    metadata: { name: serving.name, annotations: annotationsOf(serving) },
    spec: {
      serveConfigV2: yamlOf(config),
      rayClusterConfig: {
        enableInTreeAutoscaling: most > serving.minReplicas,
        headGroupSpec: {
          // Without cores of its own it serves nothing.
          rayStartParams: { 'num-cpus': '0', 'dashboard-host': '0.0.0.0' },
          template: headPod(serving, named),
        },
        workerGroupSpecs: [
          {
            groupName: 'replicas',
            replicas: serving.minReplicas,
            minReplicas: serving.minReplicas,
            maxReplicas: most,
            rayStartParams: {},
            template: pod,
          },
        ],
      },
    },
  }
  const all = [
    ...gpu.needs.map((need) => `needs: ${need}`),
    ...notes,
    ...imageNotes(named),
    ...overlayNotes(serving),
    'needs KubeRay 1.1 or later; head and workers use the Ray release of the image',
  ]
  return [
    {
      name: 'rayservice.yaml',
      text: manifestsYaml(
        serving,
        [...claimTemplates(serving, gpu), ...disruptionBudget(serving, several, labels), service],
        all,
      ),
    },
  ]
}

/** The head coordinates and holds no GPU; the cluster's policies ask the same of it. */
const headPod = (serving: Serving, image: string) =>
  laidOver(
    serving,
    {
      metadata: {},
      spec: {
        containers: [
          {
            name: 'ray-head',
            image,
            resources: { requests: headResources, limits: headResources },
          },
        ],
      },
    },
    'ray-head',
  )

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
 * The Ray Serve application with the tuned values, as `serveConfigV2` takes it.
 * @throws SpecError where its import path is not given
 */
function serveConfig(
  serving: Serving,
  { importPath }: SpecOptions,
): { readonly config: Manifest; readonly notes: readonly string[] } {
  if (!importPath)
    throw new SpecError(
      'Ray Serve needs the import path of the application',
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
    ? [
        rangeNote(serving),
        `max_ongoing_requests ${inFlight} is the concurrency at the capacity by Little's law: rate x mean latency`,
      ]
    : [unscaledNote(serving)]
  return { config, notes }
}
