/** KubeDL Inference v1alpha1, with an HPA of its own: the kind's autoScale and batching fields are read by no controller. */

import { overlayNotes, placedPod } from './laid-over.ts'
import { annotationsOf, type Manifest, manifestsYaml } from './manifest.ts'
import { mounted, plainServer, tfservingServer } from './platform-pod.ts'
import { probes } from './pod.ts'
import { refuseClaim } from './pod-gpus.ts'
import { autoscaler, unscaledNote } from './scaling.ts'
import type { Serving } from './serving.ts'
import type { SpecTarget } from './target.ts'
import { configFile } from './triton-config.ts'

export const target: SpecTarget = {
  title: 'KubeDL',
  servers: ['tfserving', 'triton'],
  namespaced: true,
  takes: ['backend'],
  needsModelUri: () => true,
  render: (serving, { backend }) => {
    const { objects, notes } = kubedlObjects(serving)
    return [{ name: 'inference.yaml', text: manifestsYaml(serving, objects, notes) }, ...configFile(serving, backend)]
  },
}

const [restPort, grpcPort] = [8080, 9000]

function kubedlObjects(serving: Serving): { objects: Manifest[]; notes: readonly string[] } {
  const tensorflow = serving.deployed.server === 'tfserving'
  const repository = serving.modelUri!
  const server = tensorflow ? tfservingServer(serving, { grpcPort, restPort, basePath: repository }) : plainServer(serving)
  refuseClaim(server.gpu, 'KubeDL takes')
  const readyPath = tensorflow ? `/v1/models/${serving.name}` : '/v2/health/ready'
  const livePath = tensorflow ? readyPath : '/v2/health/live'
  const command = tensorflow ? ['/usr/bin/tensorflow_model_server'] : ['tritonserver']
  const tritonArgs = [`--model-repository=${repository}`, `--http-port=${restPort}`, `--grpc-port=${grpcPort}`]
  const container = {
    name: 'predictor',
    image: serving.container.image,
    command,
    ...(tensorflow ? {} : { args: tritonArgs }),
    // KubeDL finds ports by these names.
    ports: [
      { name: 'predictor-http-port', containerPort: restPort },
      { name: 'predictor-grpc-port', containerPort: grpcPort },
    ],
    ...probes(serving, { readyPath, livePath }, restPort),
    ...server.fields,
  }
  const pod = placedPod(serving, server.gpu, { ...mounted(server), containers: [container] }, container.name)
  const inference: Manifest = {
    apiVersion: 'serving.kubedl.io/v1alpha1',
    kind: 'Inference',
    metadata: { name: serving.name, annotations: annotationsOf(serving) },
    spec: {
      framework: tensorflow ? 'TFServing' : 'Triton',
      predictors: [
        {
          name: 'predictor',
          modelPath: repository,
          ...(serving.modelVersion ? { modelVersion: serving.modelVersion } : {}),
          replicas: serving.replicas,
          trafficWeight: 100,
          template: pod,
        },
      ],
    },
  }
  const scaled = { apiVersion: 'apps/v1', kind: 'Deployment', name: `${serving.name}-predictor` }
  const place = tensorflow ? [] : [`config.pbtxt belongs into the model repository, in the folder ${serving.model}`]
  const ranges = serving.maxReplicas > serving.minReplicas
  const scales = ranges && serving.scalable
  return {
    objects: [...(server.configMap ? [server.configMap] : []), inference, ...(scales ? [autoscaler(serving, scaled)] : [])],
    notes: [...server.notes, ...overlayNotes(serving), ...place, ...(ranges && !scales ? [unscaledNote] : [])],
  }
}
