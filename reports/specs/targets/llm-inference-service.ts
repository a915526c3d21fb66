/**
 * LLMInferenceService of KServe: one deployment of vLLM behind a route of the Gateway API. Its own
 * template starts vLLM, and reads further flags from VLLM_ADDITIONAL_ARGS.
 */
import { wasMeasured } from '../../figures.ts'
import { buildDisruptionBudget, buildLifetime, lifecycle } from '../availability.ts'
import { omitEmpty } from '../manifest.ts'
import { buildResources, formatMemory } from '../pod.ts'
import { applyOverlay, describeIgnoredFields } from '../pod-overlay.ts'
import { buildAnnotations } from '../provenance.ts'
import {
  buildClaimTemplates,
  buildScheduling,
  describeGpuNeeds,
  selectServingGpus,
} from '../scheduling.ts'
import { describeHubToken, resolveKserveUri } from '../servers/hugging-face.ts'
import {
  buildVllmFlags,
  describeLanguageServer,
  describeNodeSize,
  quoteFlag,
  resolveLanguageKnobs,
} from '../servers/language.ts'
import type { Serving } from '../serving.ts'
import { SpecError } from '../spec-error.ts'
import type { SpecContent } from '../target.ts'

/** @throws SpecError for another server than vLLM */
export function renderLlmInferenceService(serving: Serving): SpecContent {
  const { deployed, model, name, container, replicas, resources, requirements } = serving
  if (deployed.server !== 'vllm')
    throw new SpecError(
      '--variant llm deploys language models on vLLM',
      'leave --variant out, or give --server vllm',
    )
  const gpu = selectServingGpus(serving)
  const knobs = resolveLanguageKnobs('vllm', serving)
  const flags = buildVllmFlags(knobs, serving)
    .filter(([flag]) => flag !== 'tensor-parallel-size')
    .map(quoteFlag)
  // The labels of the controller, as of KServe 0.16.
  const pods = {
    'app.kubernetes.io/name': name,
    'app.kubernetes.io/part-of': 'llminferenceservice',
    'kserve.io/component': 'workload',
  }
  const isReplicated = replicas > 1
  const { sharedMemoryMiB } = requirements
  const sizeLimit = sharedMemoryMiB === undefined ? undefined : formatMemory(sharedMemoryMiB)
  const { metadata, spec } = applyOverlay(
    serving,
    {
      metadata: { annotations: omitEmpty({ ...gpu.annotations }) },
      spec: {
        ...buildScheduling(serving, gpu),
        ...buildLifetime(serving, pods, isReplicated),
        // In place of the template's 1 GiB, which it mounts by this name.
        volumes: [{ name: 'dshm', emptyDir: { medium: 'Memory', sizeLimit } }],
        containers: [
          {
            // The controller merges the container of this name with its own.
            name: 'main',
            image: container.isImageNamed ? container.image : undefined,
            env: omitEmpty(
              flags.length === 0 ? [] : [{ name: 'VLLM_ADDITIONAL_ARGS', value: flags.join(' ') }],
            ),
            // Merged with the template's, whose path and scheme differ by version.
            startupProbe: {
              periodSeconds: 5,
              failureThreshold: Math.ceil(requirements.startupSeconds / 5),
            },
            lifecycle,
            resources: buildResources(serving, gpu),
          },
        ],
      },
    },
    'main',
  )
  return {
    name: 'llminferenceservice.yaml',
    body: [
      ...buildClaimTemplates(serving, gpu),
      ...buildDisruptionBudget(serving, isReplicated, pods),
      {
        apiVersion: 'serving.kserve.io/v1alpha1',
        kind: 'LLMInferenceService',
        metadata: { name, annotations: buildAnnotations(serving) },
        spec: {
          model: { uri: resolveKserveUri(serving), name: model },
          replicas,
          parallelism: resources.gpus > 1 ? { tensor: resources.gpus } : undefined,
          ...metadata,
          template: spec,
          router: { route: {}, gateway: {} },
        },
      },
    ],
    notes: [
      ...describeGpuNeeds(gpu),
      ...describeLanguageServer(knobs, serving),
      ...describeNodeSize(serving),
      ...describeHubToken(serving),
      ...describeIgnoredFields(serving),
      'needs KServe 0.16 or later with its LLMInferenceService controller, and a Gateway; the number of replicas is fixed',
      ...(wasMeasured(serving.evidence.measured, 'vllm')
        ? ['the controller chooses the release of vLLM, unless --image names one']
        : []),
    ],
  }
}
