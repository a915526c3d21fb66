/**
 * KubeDL Inference v1alpha1, with an HPA of its own: the kind's autoScale and batching fields are
 * read by no controller.
 */

import {
  disruptionBudget,
  labelsOf,
  lasting,
  leastReplicas,
  scrapeAnnotations,
} from './available.ts'
import { overlayNotes, placedPod } from './laid-over.ts'
import { annotationsOf, type Manifest, manifestsYaml } from './manifest.ts'
import { modelFolder, podStorage, storageOf } from './model-storage.ts'
import { tfservingServer, tritonServer } from './platform-pod.ts'
import { refuseClaim } from './pod-gpus.ts'
import { autoscalingFor } from './scaling.ts'
import type { Serving } from './serving.ts'
import type { SpecTarget } from './target.ts'

export const target: SpecTarget = {
  title: 'KubeDL',
  files: ['inference.yaml'],
  writes: 'Inference v1alpha1, and a HorizontalPodAutoscaler',
  needs: 'KubeDL, and for the autoscaler a metrics adapter',
  scaledBy: 'request rate, by a HorizontalPodAutoscaler',
  servers: ['tfserving', 'triton'],
  namespaced: true,
  takes: ['backend'],
  needsModelUri: () => true,
  render: (serving, { backend }) => {
    const { objects, notes } = kubedlObjects(serving, backend)
    return [{ name: 'inference.yaml', text: manifestsYaml(serving, objects, notes) }]
  },
}

const [http, grpc] = [8080, 9000]

function kubedlObjects(
  serving: Serving,
  backend: string | undefined,
): { objects: Manifest[]; notes: readonly string[] } {
  const tensorflow = serving.deployed.server === 'tfserving'
  const kept = storageOf(serving)
  const storage = podStorage(kept)
  const folder = kept?.path ?? modelFolder
  const places = { http, grpc, folder }
  const server = tensorflow
    ? tfservingServer(serving, places)
    : tritonServer(serving, places, backend)
  refuseClaim(server.gpu, 'KubeDL takes')
  const { volumeMounts = [], ...fields } = server.fields as {
    readonly volumeMounts?: readonly Manifest[]
  }
  const container = {
    name: 'predictor',
    image: serving.container.image,
    ...(tensorflow ? { command: ['/usr/bin/tensorflow_model_server'] } : {}),
    // KubeDL finds ports by these names.
    ports: [
      { name: 'predictor-http-port', containerPort: http },
      { name: 'predictor-grpc-port', containerPort: grpc },
    ],
    ...fields,
    volumeMounts: [...storage.volumeMounts, ...volumeMounts],
  }
  const ranges = serving.maxReplicas > serving.minReplicas
  const deployment = `${serving.name}-predictor`
  const scaling = autoscalingFor(serving, ranges ? 'hpa' : 'none', { deployment })
  const scales = scaling.objects.length > 0
  const several = leastReplicas(serving, scales) > 1
  const labels = labelsOf(serving)
  const spec = {
    ...lasting(serving, labels, several),
    volumes: [...storage.volumes, ...server.volumes],
    ...(storage.initContainers.length > 0 ? { initContainers: storage.initContainers } : {}),
    containers: [container],
  }
  const annotations = {
    ...storage.annotations,
    ...(scaling.isScraped ? scrapeAnnotations(server.scraped) : {}),
  }
  const pod = placedPod(serving, server.gpu, spec, container.name, { labels, annotations })
  const inference: Manifest = {
    apiVersion: 'serving.kubedl.io/v1alpha1',
    kind: 'Inference',
    metadata: { name: serving.name, annotations: annotationsOf(serving) },
    spec: {
      framework: tensorflow ? 'TFServing' : 'Triton',
      predictors: [
        {
          name: 'predictor',
          // Where KubeDL puts a ModelVersion; what is fetched or mounted here lies elsewhere.
          ...(kept?.kind === 'path' ? { modelPath: kept.path } : {}),
          ...(serving.modelVersion ? { modelVersion: serving.modelVersion } : {}),
          replicas: serving.replicas,
          trafficWeight: 100,
          template: pod,
        },
      ],
    },
  }
  const budget = disruptionBudget(serving, several, labels)
  return {
    objects: [
      ...(server.configMap ? [server.configMap] : []),
      inference,
      ...scaling.objects,
      ...budget,
    ],
    notes: [...server.notes, ...storage.notes, ...overlayNotes(serving), ...scaling.notes],
  }
}
