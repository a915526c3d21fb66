/** Seldon Core v1 SeldonDeployment, with TensorFlow Serving or Triton as its prepackaged server. */
import { overlayNotes, placedPod } from './laid-over.ts'
import { annotationsOf, type Manifest, manifestsYaml } from './manifest.ts'
import { platformUri } from './model-storage.ts'
import { mounted, plainServer, tfservingServer } from './platform-pod.ts'
import { refuseClaim } from './pod-gpus.ts'
import { rateMetrics, unscaledNote } from './scaling.ts'
import type { Serving } from './serving.ts'
import type { SpecTarget } from './target.ts'
import { configFile } from './triton-config.ts'

export const target: SpecTarget = {
  title: 'Seldon Core v1',
  servers: ['tfserving', 'triton'],
  namespaced: true,
  takes: ['backend'],
  needsModelUri: () => true,
  render: (serving, { backend }) => {
    const { objects, notes } = seldonObjects(serving)
    return [{ name: 'seldondeployment.yaml', text: manifestsYaml(serving, objects, notes) }, ...configFile(serving, backend)]
  },
}

function seldonObjects(serving: Serving): { objects: Manifest[]; notes: readonly string[] } {
  const tensorflow = serving.deployed.server === 'tfserving'
  // The first unit of a graph is called on these ports.
  const server = tensorflow ? tfservingServer(serving, { grpcPort: 9500, restPort: 9000, basePath: '/mnt/models' }) : plainServer(serving)
  refuseClaim(server.gpu, 'Seldon takes')
  const container = { name: serving.name, image: serving.container.image, ...server.fields }
  const pod = placedPod(serving, server.gpu, { ...mounted(server), containers: [container] }, container.name)
  const ranges = serving.maxReplicas > serving.minReplicas
  const scales = ranges && serving.scalable
  const deployment: Manifest = {
    apiVersion: 'machinelearning.seldon.io/v1',
    kind: 'SeldonDeployment',
    metadata: { name: serving.name, annotations: annotationsOf(serving) },
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
            modelUri: platformUri(serving.modelUri!, 'Seldon'),
            ...(tensorflow ? { parameters: [{ name: 'model_name', type: 'STRING', value: serving.name }] } : {}),
            children: [],
          },
          componentSpecs: [
            {
              ...(Object.keys(pod.metadata).length > 0 ? { metadata: pod.metadata } : {}),
              ...(scales
                ? { hpaSpec: { minReplicas: serving.minReplicas, maxReplicas: serving.maxReplicas, metricsv2: rateMetrics(serving) } }
                : {}),
              pdbSpec: { maxUnavailable: 1 },
              spec: pod.spec,
            },
          ],
        },
      ],
    },
  }
  const place = tensorflow ? [] : [`config.pbtxt belongs into the model repository, in the folder ${serving.model}`]
  return {
    objects: [...(server.configMap ? [server.configMap] : []), deployment],
    notes: [...server.notes, ...overlayNotes(serving), ...place, ...(ranges && !scales ? [unscaledNote] : [])],
  }
}
