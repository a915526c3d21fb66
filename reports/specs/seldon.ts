/** Seldon Core v1 SeldonDeployment, with TensorFlow Serving or Triton as its prepackaged server. */
import { labelsOf, lasting, leastReplicas } from './available.ts'
import { overlayNotes, placedPod } from './laid-over.ts'
import { annotationsOf, type Manifest, manifestsYaml } from './manifest.ts'
import { platformUri } from './model-storage.ts'
import { mounted, tfservingServer, tritonServer } from './platform-pod.ts'
import { refuseClaim } from './pod-gpus.ts'
import { adapterNote, rateMetrics, rateRangeNote, unscaledNote } from './scaling.ts'
import type { Serving } from './serving.ts'
import type { SpecTarget } from './target.ts'

export const target: SpecTarget = {
  title: 'Seldon Core v1',
  files: ['seldondeployment.yaml'],
  writes: 'SeldonDeployment v1',
  needs: 'Seldon Core v1, and for its autoscaler a metrics adapter',
  scaledBy: "request rate, by the SeldonDeployment's own `hpaSpec`",
  servers: ['tfserving', 'triton'],
  namespaced: true,
  takes: ['backend'],
  needsModelUri: () => true,
  render: (serving, { backend }) => {
    const { objects, notes } = seldonObjects(serving, backend)
    return [{ name: 'seldondeployment.yaml', text: manifestsYaml(serving, objects, notes) }]
  },
}

/** The first unit of a graph is called on these ports. */
const places = { http: 9000, grpc: 9500, folder: '/mnt/models' } as const

function seldonObjects(
  serving: Serving,
  backend: string | undefined,
): { objects: Manifest[]; notes: readonly string[] } {
  const tensorflow = serving.deployed.server === 'tfserving'
  const server = tensorflow
    ? tfservingServer(serving, places)
    : tritonServer(serving, places, backend)
  refuseClaim(server.gpu, 'Seldon takes')
  const container = { name: serving.name, image: serving.container.image, ...server.fields }
  const ranges = serving.maxReplicas > serving.minReplicas
  const scales = ranges && serving.scalable
  const several = leastReplicas(serving, scales) > 1
  const labels = labelsOf(serving)
  const spec = { ...lasting(serving, labels, several), ...mounted(server), containers: [container] }
  const pod = placedPod(serving, server.gpu, spec, container.name, { labels })
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
            ...(tensorflow
              ? { parameters: [{ name: 'model_name', type: 'STRING', value: serving.name }] }
              : {}),
            children: [],
          },
          componentSpecs: [
            {
              ...(Object.keys(pod.metadata).length > 0 ? { metadata: pod.metadata } : {}),
              ...(scales
                ? {
                    hpaSpec: {
                      minReplicas: serving.minReplicas,
                      maxReplicas: serving.maxReplicas,
                      metricsv2: rateMetrics(serving),
                    },
                  }
                : {}),
              ...(several ? { pdbSpec: { maxUnavailable: 1 } } : {}),
              spec: pod.spec,
            },
          ],
        },
      ],
    },
  }
  const scaling = scales
    ? [
        rateRangeNote(serving),
        seldonAdapter(serving),
        "hpaSpec has no field for scaling rates: the cluster's defaults apply",
      ]
    : [unscaledNote(serving)]
  return {
    objects: [...(server.configMap ? [server.configMap] : []), deployment],
    notes: [...server.notes, ...overlayNotes(serving), ...(ranges ? scaling : [])],
  }
}

/** Seldon's executor counts the requests; Seldon annotates its pods for scraping. */
const seldonAdapter = (serving: Serving): string =>
  adapterNote({
    ...serving,
    container: {
      ...serving.container,
      requestsMetric: 'seldon_api_executor_server_requests_seconds_count',
    },
  })
