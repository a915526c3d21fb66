/**
 * RayService v1 of KubeRay: the application of `--target ray` and a cluster with a worker for each
 * replica.
 */

import { disruptionBudget, labelsOf, lasting } from './available.ts'
import { laidOver, overlayNotes, placedPod } from './laid-over.ts'
import { annotationsOf, type Manifest, manifestsYaml, type SpecFile, yamlOf } from './manifest.ts'
import { resourcesBlock } from './pod.ts'
import { claimTemplates, specGpus } from './pod-gpus.ts'
import { serveConfig } from './ray-serve.ts'
import { imageToFill } from './server-pod.ts'
import type { Serving } from './serving.ts'
import type { SpecOptions, SpecTarget } from './target.ts'

export const target: SpecTarget = {
  title: 'RayService',
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
    ...(imageNamed
      ? []
      : [
          'does not start yet: which image holds Ray and the application is not known; write it again with --image',
        ]),
    ...overlayNotes(serving),
    'needs KubeRay 1.1 or later; head and workers take the Ray of the image',
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
