/**
 * RayService v1 of KubeRay: a Ray Serve application of the user's own, with the tuned values in its
 * user_config, and a cluster with a worker for each replica.
 */
import { resourceParameters } from '../../../trials/resources.ts'
import { describeFixedReplicas, describeRange, resolveBehaviour } from '../autoscaling.ts'
import { buildDisruptionBudget, buildLabels, buildLifetime } from '../availability.ts'
import { formatYaml, type Manifest, omitEmpty } from '../manifest.ts'
import { describeImage, imagePlaceholder } from '../placeholders.ts'
import { buildResources } from '../pod.ts'
import { applyOverlay, describeIgnoredFields } from '../pod-overlay.ts'
import { buildAnnotations } from '../provenance.ts'
import {
  buildClaimTemplates,
  buildScheduling,
  describeGpuNeeds,
  selectServingGpus,
} from '../scheduling.ts'
import type { Serving } from '../serving.ts'
import { SpecError } from '../spec-error.ts'
import type { SpecContent, SpecOptions, SpecTarget } from '../target.ts'

export const target: SpecTarget = {
  title: 'RayService',
  files: ['rayservice.yaml'],
  writes: 'RayService v1: the application of `--import-path`, and a worker for each replica',
  needs: 'KubeRay, and an image with the application',
  scaledBy: 'requests in flight, by Ray itself',
  servers: ['ray'],
  implies: 'ray',
  isNamespaced: true,
  takes: ['importPath'],
  refusesModelUri: {
    why: 'the application loads its own weights',
    hint: 'name them in the application of --import-path, and leave --model-uri out',
  },
  render: renderRayService,
}

/** Resources of the head, which runs no replica. Assumed. */
const headResources = { cpu: '2', memory: '4Gi' }
const [head, worker] = ['ray-head', 'ray-worker']

function renderRayService(serving: Serving, { importPath }: SpecOptions): SpecContent {
  if (!importPath)
    throw new SpecError(
      'Ray Serve needs the import path of the application',
      'give --import-path, e.g. serve_app:app',
    )
  const { name, minReplicas, inFlight } = serving
  const gpu = selectServingGpus(serving)
  const image = serving.container.isImageNamed ? serving.container.image : imagePlaceholder
  const labels = buildLabels(serving)
  const isReplicated = minReplicas > 1
  const isScaled = serving.isScalable && inFlight !== undefined
  const maxReplicas = isScaled ? serving.maxReplicas : serving.replicas
  return {
    name: 'rayservice.yaml',
    body: [
      ...buildClaimTemplates(serving, gpu),
      ...buildDisruptionBudget(serving, isReplicated, labels),
      {
        apiVersion: 'ray.io/v1',
        kind: 'RayService',
        metadata: { name, annotations: buildAnnotations(serving) },
        spec: {
          serveConfigV2: formatYaml(buildServeConfig(serving, importPath)),
          rayClusterConfig: {
            enableInTreeAutoscaling: maxReplicas > minReplicas,
            headGroupSpec: {
              // With no cores for Ray, the head runs no replica.
              rayStartParams: { 'num-cpus': '0', 'dashboard-host': '0.0.0.0' },
              template: applyOverlay(
                serving,
                {
                  metadata: {},
                  spec: {
                    containers: [
                      {
                        name: head,
                        image,
                        resources: { requests: headResources, limits: headResources },
                      },
                    ],
                  },
                },
                head,
              ),
            },
            workerGroupSpecs: [
              {
                groupName: 'replicas',
                replicas: minReplicas,
                minReplicas,
                maxReplicas,
                rayStartParams: {},
                template: applyOverlay(
                  serving,
                  {
                    metadata: { labels, annotations: omitEmpty({ ...gpu.annotations }) },
                    spec: {
                      ...buildScheduling(serving, gpu),
                      ...buildLifetime(serving, labels, isReplicated),
                      containers: [
                        {
                          name: worker,
                          image,
                          // As in KubeRay's samples: Ray moves the replicas first.
                          lifecycle: {
                            preStop: { exec: { command: ['/bin/sh', '-c', 'ray stop'] } },
                          },
                          resources: buildResources(serving, gpu),
                        },
                      ],
                    },
                  },
                  worker,
                ),
              },
            ],
          },
        },
      },
    ],
    notes: [
      ...describeGpuNeeds(gpu),
      ...(isScaled
        ? [
            describeRange(serving),
            `max_ongoing_requests ${inFlight} is the concurrency at the capacity by Little's law: rate x mean latency`,
          ]
        : [describeFixedReplicas(serving)]),
      ...describeImage(image),
      ...describeIgnoredFields(serving),
      'needs KubeRay 1.1 or later; head and workers use the Ray release of the image',
    ],
  }
}

/** Builds the Ray Serve application with the tuned values, as `serveConfigV2` takes it. */
function buildServeConfig(serving: Serving, importPath: string): Manifest {
  const { name, model, minReplicas, maxReplicas, inFlight, headroom, requirements } = serving
  const { gpu, gpus, gpuShare } = serving.resources
  const { cpuCores, memoryMiB, graceSeconds } = requirements
  const tuned = Object.entries(serving.configuration).filter(
    ([parameter]) => !(resourceParameters as readonly string[]).includes(parameter),
  )
  const scaling =
    serving.isScalable && inFlight !== undefined
      ? {
          max_ongoing_requests: inFlight,
          autoscaling_config: {
            min_replicas: minReplicas,
            max_replicas: maxReplicas,
            target_ongoing_requests: Math.max(1, Math.round(inFlight * (1 - headroom))),
            downscale_delay_s: resolveBehaviour(serving)?.scaleDown.stabilizationWindowSeconds,
          },
        }
      : { num_replicas: serving.replicas }
  return {
    applications: [
      {
        name,
        route_prefix: `/${name}`,
        import_path: importPath,
        deployments: [
          {
            name: model,
            ...scaling,
            graceful_shutdown_timeout_s: graceSeconds,
            ray_actor_options: {
              num_cpus: cpuCores,
              ...(gpu && {
                num_gpus: gpuShare < 1 ? gpuShare : gpus,
                accelerator_type: resolveAccelerator(gpu),
              }),
              memory: memoryMiB === undefined ? undefined : memoryMiB * 1024 * 1024,
            },
            user_config: omitEmpty(Object.fromEntries(tuned)),
          },
        ],
      },
    ],
  }
}

/** Kinds of GPUs that Ray knows (ray.util.accelerators); it knows no sizes. */
const acceleratorKinds: ReadonlySet<string> = new Set(
  'K80 P4 P100 T4 V100 L4 L40 L40S A10G A10 A30 A40 A100 H100 H200 H20 B200 B300 GB200'.split(' '),
)
const resolveAccelerator = (gpu: string): string | undefined => {
  const [kind = ''] = gpu.split('-')
  return acceleratorKinds.has(kind) ? kind : undefined
}
