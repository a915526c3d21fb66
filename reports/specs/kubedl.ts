/** KubeDL Inference v1alpha1, with an HPA of its own: the kind's autoScale and batching fields are read by no controller. */

import { autoscaler } from './kubernetes-deployment.ts'
import { type Manifest, manifestsYaml, type SpecFile } from './manifest.ts'
import { nodePlacement, plainServer, tfservingServer } from './platform-pod.ts'
import { probes } from './pod.ts'
import { refuseClaim } from './pod-gpus.ts'
import type { Serving } from './serving.ts'
import { SpecError } from './serving.ts'
import { tfservingImage } from './tfserving-deployment.ts'
import { tritonImage, tritonSpec } from './triton-config.ts'

const [restPort, grpcPort] = [8080, 9000]

/** `inference.yaml`, and for Triton the config.pbtxt. Throws SpecError for other servers. */
export function kubedlSpec(serving: Serving, backend?: string): SpecFile[] {
  const { objects, notes } = kubedlObjects(serving)
  return [
    { name: 'inference.yaml', text: manifestsYaml(serving, objects, notes) },
    ...(serving.server === 'triton' ? tritonSpec(serving, backend) : []),
  ]
}

export function kubedlObjects(serving: Serving): { objects: Manifest[]; notes: readonly string[] } {
  if (serving.server === 'custom')
    throw new SpecError('KubeDL deploys TensorFlow Serving or Triton', 'give --server tfserving or --server triton')
  const tensorflow = serving.server === 'tfserving'
  const repository = serving.modelUri ?? `/kubedl-model/${serving.name}`
  const server = tensorflow ? tfservingServer(serving, { grpcPort, restPort, basePath: repository }) : plainServer(serving)
  refuseClaim(server.gpu, 'KubeDL takes')
  const readyPath = tensorflow ? `/v1/models/${serving.name}` : '/v2/health/ready'
  const livePath = tensorflow ? readyPath : '/v2/health/live'
  const image = serving.container.image || (tensorflow ? tfservingImage(serving.resources.gpu !== undefined) : tritonImage)
  const command = tensorflow ? ['/usr/bin/tensorflow_model_server'] : ['tritonserver']
  const tritonArgs = [`--model-repository=${repository}`, `--http-port=${restPort}`, `--grpc-port=${grpcPort}`]
  const inference: Manifest = {
    apiVersion: 'serving.kubedl.io/v1alpha1',
    kind: 'Inference',
    metadata: { name: serving.name },
    spec: {
      framework: tensorflow ? 'TFServing' : 'Triton',
      predictors: [
        {
          name: 'predictor',
          modelPath: repository,
          ...(serving.modelVersion ? { modelVersion: serving.modelVersion } : {}),
          replicas: serving.replicas,
          trafficWeight: 100,
          template: {
            ...(Object.keys(server.gpu.annotations).length > 0 ? { metadata: { annotations: server.gpu.annotations } } : {}),
            spec: {
              ...nodePlacement(serving, server.gpu),
              ...(server.volumes.length > 0 ? { volumes: server.volumes } : {}),
              containers: [
                {
                  name: 'predictor',
                  image,
                  command,
                  ...(tensorflow ? {} : { args: tritonArgs }),
                  // KubeDL finds ports by these names.
                  ports: [
                    { name: 'predictor-http-port', containerPort: restPort },
                    { name: 'predictor-grpc-port', containerPort: grpcPort },
                  ],
                  ...probes({ ...serving, container: { ...serving.container, readyPath, livePath } }, restPort),
                  ...server.fields,
                },
              ],
            },
          },
        },
      ],
    },
  }
  const scaled = { apiVersion: 'apps/v1', kind: 'Deployment', name: `${serving.name}-predictor` }
  const place = tensorflow ? [] : [`config.pbtxt belongs into the model repository, in the folder ${serving.model}`]
  return {
    objects: [
      ...(server.configMap ? [server.configMap] : []),
      inference,
      ...(serving.maxReplicas > serving.minReplicas ? [autoscaler(serving, scaled)] : []),
    ],
    notes: [...server.notes, ...place],
  }
}
