/**
 * KubeDL Inference v1alpha1, with an autoscaler of its own: no controller reads the kind's autoScale
 * and batching fields.
 */
import { buildAutoscaling } from '../autoscaling.ts'
import {
  buildDisruptionBudget,
  buildLabels,
  buildLifetime,
  buildScrapeAnnotations,
  countMinReplicas,
} from '../availability.ts'
import { buildPlatformContainer } from '../container.ts'
import { omitEmpty } from '../manifest.ts'
import { buildPodStorage, modelFolder, resolveStorage } from '../model-storage.ts'
import { buildConfigMaps, buildResources, buildServerFields, mountVolumes } from '../pod.ts'
import { applyOverlay, describeIgnoredFields } from '../pod-overlay.ts'
import { buildAnnotations } from '../provenance.ts'
import { buildScheduling, describeGpuNeeds, refuseClaim, selectServingGpus } from '../scheduling.ts'
import { tfservingProgram } from '../servers/tfserving.ts'
import type { Serving } from '../serving.ts'
import type { SpecContent, SpecOptions, SpecTarget } from '../target.ts'

export const target: SpecTarget = {
  title: 'KubeDL',
  files: ['inference.yaml'],
  writes: 'Inference v1alpha1, and a HorizontalPodAutoscaler',
  needs: 'KubeDL, and for the autoscaler a metrics adapter',
  scaledBy: 'request rate, by a HorizontalPodAutoscaler',
  servers: ['tfserving', 'triton'],
  isNamespaced: true,
  takes: ['backend'],
  needsModelUri: () => true,
  render: renderInference,
}

const [http, grpc] = [8080, 9000]

function renderInference(serving: Serving, { backend }: SpecOptions): SpecContent {
  const { name, minReplicas, maxReplicas } = serving
  const isTensorflow = serving.deployed.server === 'tfserving'
  const weights = resolveStorage(serving)
  const storage = buildPodStorage(weights)
  const places = { http, grpc, folder: weights?.path ?? modelFolder }
  const container = buildPlatformContainer(serving, places, backend)
  const gpu = selectServingGpus(serving)
  refuseClaim(gpu, 'KubeDL takes')
  const scaling = buildAutoscaling(serving, maxReplicas > minReplicas ? 'hpa' : 'none', {
    deployment: `${name}-predictor`,
  })
  const labels = buildLabels(serving)
  const isReplicated = countMinReplicas(serving, scaling.objects.length > 0) > 1
  const { volumes, volumeMounts } = mountVolumes(serving, container, storage)
  return {
    name: 'inference.yaml',
    body: [
      ...buildConfigMaps(serving, container),
      {
        apiVersion: 'serving.kubedl.io/v1alpha1',
        kind: 'Inference',
        metadata: { name, annotations: buildAnnotations(serving) },
        spec: {
          framework: isTensorflow ? 'TFServing' : 'Triton',
          predictors: [
            {
              name: 'predictor',
              // Where KubeDL puts a ModelVersion; fetched and mounted weights lie elsewhere.
              modelPath: weights?.kind === 'path' ? weights.path : undefined,
              modelVersion: serving.modelVersion || undefined,
              replicas: serving.replicas,
              trafficWeight: 100,
              template: applyOverlay(
                serving,
                {
                  metadata: {
                    labels,
                    annotations: omitEmpty({
                      ...gpu.annotations,
                      ...storage.annotations,
                      ...(scaling.isScraped && buildScrapeAnnotations(container)),
                    }),
                  },
                  spec: {
                    ...buildScheduling(serving, gpu),
                    ...buildLifetime(serving, labels, isReplicated),
                    volumes: volumes ?? [],
                    initContainers: omitEmpty(storage.initContainers),
                    containers: [
                      {
                        name: 'predictor',
                        image: serving.container.image,
                        ...(isTensorflow && { command: [tfservingProgram] }),
                        // KubeDL finds ports by these names.
                        ports: [
                          { name: 'predictor-http-port', containerPort: http },
                          { name: 'predictor-grpc-port', containerPort: grpc },
                        ],
                        ...buildServerFields(serving, container),
                        resources: buildResources(serving, gpu),
                        volumeMounts: volumeMounts ?? [],
                      },
                    ],
                  },
                },
                'predictor',
              ),
            },
          ],
        },
      },
      ...scaling.objects,
      ...buildDisruptionBudget(serving, isReplicated, labels),
    ],
    notes: [
      ...describeGpuNeeds(gpu),
      ...container.notes,
      ...storage.notes,
      ...describeIgnoredFields(serving),
      ...scaling.notes,
    ],
  }
}
