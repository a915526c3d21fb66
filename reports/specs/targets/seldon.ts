/** Seldon Core v1 SeldonDeployment, with TensorFlow Serving or Triton as its prepackaged server. */
import {
  buildRateMetrics,
  describeAdapter,
  describeFixedReplicas,
  describeRateRange,
} from '../autoscaling.ts'
import { buildLabels, buildLifetime, countMinReplicas } from '../availability.ts'
import { buildPlatformContainer } from '../container.ts'
import { omitEmpty } from '../manifest.ts'
import { checkPlatformUri } from '../model-storage.ts'
import { buildConfigMaps, buildResources, buildServerFields, mountVolumes } from '../pod.ts'
import { applyOverlay, describeIgnoredFields } from '../pod-overlay.ts'
import { buildAnnotations } from '../provenance.ts'
import { buildScheduling, describeGpuNeeds, refuseClaim, selectServingGpus } from '../scheduling.ts'
import type { Serving } from '../serving.ts'
import type { SpecContent, SpecOptions, SpecTarget } from '../target.ts'

export const target: SpecTarget = {
  title: 'Seldon Core v1',
  files: ['seldondeployment.yaml'],
  writes: 'SeldonDeployment v1',
  needs: 'Seldon Core v1, and for its autoscaler a metrics adapter',
  scaledBy: "request rate, by the SeldonDeployment's own `hpaSpec`",
  servers: ['tfserving', 'triton'],
  isNamespaced: true,
  takes: ['backend'],
  needsModelUri: () => true,
  render: renderSeldon,
}

/** Seldon calls the first unit of a graph on these ports. */
const places = { http: 9000, grpc: 9500, folder: '/mnt/models' } as const

/** Seldon's executor counts the requests; Seldon annotates its pods for scraping. */
const requestsMetric = 'seldon_api_executor_server_requests_seconds_count'

function renderSeldon(serving: Serving, { backend }: SpecOptions): SpecContent {
  const { name, minReplicas, maxReplicas } = serving
  const isTensorflow = serving.deployed.server === 'tfserving'
  const container = buildPlatformContainer(serving, places, backend)
  const gpu = selectServingGpus(serving)
  refuseClaim(gpu, 'Seldon takes')
  const labels = buildLabels(serving)
  const hasRange = maxReplicas > minReplicas
  const isScaled = hasRange && serving.isScalable
  const isReplicated = countMinReplicas(serving, isScaled) > 1
  const { volumes, volumeMounts } = mountVolumes(serving, container)
  const pod = applyOverlay(
    serving,
    {
      metadata: { labels, annotations: omitEmpty({ ...gpu.annotations }) },
      spec: {
        ...buildScheduling(serving, gpu),
        ...buildLifetime(serving, labels, isReplicated),
        volumes,
        containers: [
          {
            name,
            image: serving.container.image,
            ...buildServerFields(serving, container),
            volumeMounts,
            resources: buildResources(serving, gpu),
          },
        ],
      },
    },
    name,
  )
  const scalingNotes = isScaled
    ? [
        describeRateRange(serving),
        describeAdapter(requestsMetric),
        "hpaSpec has no field for scaling rates: the cluster's defaults apply",
      ]
    : [describeFixedReplicas(serving)]
  return {
    name: 'seldondeployment.yaml',
    body: [
      ...buildConfigMaps(serving, container),
      {
        apiVersion: 'machinelearning.seldon.io/v1',
        kind: 'SeldonDeployment',
        metadata: { name, annotations: buildAnnotations(serving) },
        spec: {
          protocol: isTensorflow ? 'tensorflow' : 'v2',
          predictors: [
            {
              name: 'default',
              // With an hpaSpec Seldon refuses a number of replicas.
              replicas: isScaled ? undefined : serving.replicas,
              traffic: 100,
              graph: {
                // The container has this name too: Seldon joins the two by it.
                name,
                implementation: isTensorflow ? 'TENSORFLOW_SERVER' : 'TRITON_SERVER',
                modelUri: checkPlatformUri(serving.modelUri!, 'Seldon'),
                parameters: isTensorflow
                  ? [{ name: 'model_name', type: 'STRING', value: name }]
                  : undefined,
                children: [],
              },
              componentSpecs: [
                {
                  metadata: omitEmpty(pod.metadata),
                  hpaSpec: isScaled
                    ? { minReplicas, maxReplicas, metricsv2: buildRateMetrics(serving) }
                    : undefined,
                  pdbSpec: isReplicated ? { maxUnavailable: 1 } : undefined,
                  spec: pod.spec,
                },
              ],
            },
          ],
        },
      },
    ],
    notes: [
      ...describeGpuNeeds(gpu),
      ...container.notes,
      ...describeIgnoredFields(serving),
      ...(hasRange ? scalingNotes : []),
    ],
  }
}
