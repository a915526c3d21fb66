/** Seldon Core v1 SeldonDeployment, with TensorFlow Serving or Triton as its prepackaged server. */

import { autoscaler } from './kubernetes-deployment.ts'
import { type Manifest, manifestsYaml, type SpecFile } from './manifest.ts'
import { nodePlacement, plainServer, tfservingServer } from './platform-pod.ts'
import { refuseClaim } from './pod-gpus.ts'
import type { Serving } from './serving.ts'
import { SpecError } from './serving.ts'
import { tritonSpec } from './triton-config.ts'

/** `seldondeployment.yaml`, and for Triton the config.pbtxt that belongs into the model repository. Throws SpecError for other servers. */
export function seldonSpec(serving: Serving, backend?: string): SpecFile[] {
  const { objects, notes } = seldonObjects(serving)
  return [
    { name: 'seldondeployment.yaml', text: manifestsYaml(serving, objects, notes) },
    ...(serving.server === 'triton' ? tritonSpec(serving, backend) : []),
  ]
}

export function seldonObjects(serving: Serving): { objects: Manifest[]; notes: readonly string[] } {
  if (serving.server === 'custom')
    throw new SpecError('Seldon deploys TensorFlow Serving or Triton', 'give --server tfserving or --server triton')
  if (!serving.modelUri)
    throw new SpecError('Seldon fetches the model itself, and its place is not known', 'give --model-uri, e.g. gs://bucket/model')
  const tensorflow = serving.server === 'tfserving'
  // The first unit of a graph is called on these ports.
  const server = tensorflow ? tfservingServer(serving, { grpcPort: 9500, restPort: 9000, basePath: '/mnt/models' }) : plainServer(serving)
  refuseClaim(server.gpu, 'Seldon takes')
  const { metrics } = autoscaler(serving, {}).spec as { metrics: unknown }
  const scales = serving.maxReplicas > serving.minReplicas
  const deployment: Manifest = {
    apiVersion: 'machinelearning.seldon.io/v1',
    kind: 'SeldonDeployment',
    metadata: { name: serving.name },
    spec: {
      protocol: tensorflow ? 'tensorflow' : 'v2',
      predictors: [
        {
          name: 'default',
          // With an hpaSpec Seldon refuses a number of replicas.
          ...(scales ? {} : { replicas: serving.replicas }),
          traffic: 100,
          graph: {
            // The container carries this name too: that is how Seldon joins the two.
            name: serving.name,
            implementation: tensorflow ? 'TENSORFLOW_SERVER' : 'TRITON_SERVER',
            modelUri: serving.modelUri,
            ...(tensorflow ? { parameters: [{ name: 'model_name', type: 'STRING', value: serving.name }] } : {}),
            children: [],
          },
          componentSpecs: [
            {
              ...(Object.keys(server.gpu.annotations).length > 0 ? { metadata: { annotations: server.gpu.annotations } } : {}),
              ...(scales ? { hpaSpec: { minReplicas: serving.minReplicas, maxReplicas: serving.maxReplicas, metricsv2: metrics } } : {}),
              pdbSpec: { maxUnavailable: 1 },
              spec: {
                ...nodePlacement(serving, server.gpu),
                ...(server.volumes.length > 0 ? { volumes: server.volumes } : {}),
                containers: [{ name: serving.name, ...server.fields }],
              },
            },
          ],
        },
      ],
    },
  }
  const place = tensorflow ? [] : [`config.pbtxt belongs into the model repository, in the folder ${serving.model}`]
  return { objects: [...(server.configMap ? [server.configMap] : []), deployment], notes: [...server.notes, ...place] }
}
