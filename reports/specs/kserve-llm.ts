/** vLLM on KServe: its Hugging Face runtime, which has vLLM in it, and the LLMInferenceService. */
import { unusedNote } from '../../trials/servers/knobs.ts'
import { flagText, hubName } from '../../trials/servers/language-servers.ts'
import { wasMeasured } from '../figures.ts'
import { disruptionBudget, lasting, lifecycle } from './available.ts'
import { overlayNotes, placedPod } from './laid-over.ts'
import {
  draftNotes,
  languageKnobs,
  languageProbeSeconds,
  nodeNotes,
  quotedFlag,
  vllmFlags,
  weightNotes,
} from './language-servers.ts'
import { annotationsOf, type Manifest, manifestsYaml, type SpecFile } from './manifest.ts'
import { platformUri } from './model-storage.ts'
import { type PlatformServer, plainServer } from './platform-pod.ts'
import { memoryQuantity, probes, resourcesBlock, scratch } from './pod.ts'
import { claimTemplates, specGpus } from './pod-gpus.ts'
import type { Serving } from './serving.ts'
import { SpecError } from './spec-error.ts'

/**
 * As KServe fetches it: the Hub's names become hf://. @throws SpecError for a path, or no place at
 * all
 */
export function kserveUri({ modelUri, deployed }: Serving): string {
  const hub = deployed.server === 'vllm' && modelUri !== undefined ? hubName(modelUri) : undefined
  return hub === undefined ? platformUri(modelUri ?? '', 'KServe') : `hf://${hub}`
}

/** KServe's own step fetches them, and knows the pod's service account alone. */
const fetchNotes = ({ modelUri }: Serving): string[] =>
  modelUri !== undefined && hubName(modelUri) !== undefined
    ? [
        'a model of the Hub that is not public needs HF_TOKEN from a Secret of the service account of the pod (kubernetes.pod, or the default of the namespace)',
      ]
    : []

/** The runtime hands what it does not know on to vLLM. */
export function huggingFaceServer(serving: Serving, port: number): PlatformServer {
  const knobs = languageKnobs('vllm', serving)
  const server = plainServer(serving)
  const shared = scratch(serving, { sharedMemory: true })
  const flags = vllmFlags(knobs, serving).map(flagText)
  return {
    ...server,
    notes: [
      ...server.notes,
      ...unusedNote(knobs),
      ...draftNotes(serving),
      ...weightNotes(serving),
      ...nodeNotes(serving),
      'the runtime serves below /openai: use tune verify --path /openai/v1/completions',
      ...fetchNotes(serving),
    ],
    fields: {
      args: [`--model_name=${serving.model}`, ...flags],
      ...probes(
        serving,
        {
          readyPath: '/v2/health/ready',
          livePath: '/v2/health/live',
          probeSeconds: languageProbeSeconds.vllm,
        },
        port,
      ),
      lifecycle,
      volumeMounts: shared.volumeMounts,
      ...server.fields,
    },
    volumes: shared.volumes,
    scraped: { port },
  }
}

/** The container that the controller merges with its own. */
const main = 'main'

/**
 * LLMInferenceService: one deployment behind a route of the Gateway API. Its own template starts
 * vLLM, and reads further flags from VLLM_ADDITIONAL_ARGS.
 * @throws SpecError for another server than vLLM, or an image of the user's own kind
 */
export function llmInferenceService(serving: Serving): SpecFile {
  const { deployed, model, name, container, replicas, resources } = serving
  if (deployed.server !== 'vllm')
    throw new SpecError(
      '--variant llm deploys language models on vLLM',
      'leave --variant out, or give --server vllm',
    )
  const gpu = specGpus(resources, serving.gpuScheme, serving.dra)
  const knobs = languageKnobs('vllm', serving)
  const flags = vllmFlags(knobs, serving).filter(([flag]) => flag !== 'tensor-parallel-size')
  const extra = flags.map(quotedFlag).join(' ')
  const vllm = {
    name: main,
    ...(container.imageNamed ? { image: container.image } : {}),
    ...(extra === '' ? {} : { env: [{ name: 'VLLM_ADDITIONAL_ARGS', value: extra }] }),
    // Asked by the template's own path and scheme, which differ by version: merged with it.
    startupProbe: {
      periodSeconds: 5,
      failureThreshold: Math.ceil(serving.held.startupSeconds / 5),
    },
    lifecycle,
    resources: resourcesBlock(serving, gpu),
  }
  const { sharedMemoryMiB } = serving.held
  // In place of the template's 1 GiB, which it mounts by this name.
  const volumes =
    sharedMemoryMiB === undefined
      ? []
      : [
          {
            name: 'dshm',
            emptyDir: { medium: 'Memory', sizeLimit: memoryQuantity(sharedMemoryMiB) },
          },
        ]
  // The controller's own, as of KServe 0.16.
  const pods = {
    'app.kubernetes.io/name': name,
    'app.kubernetes.io/part-of': 'llminferenceservice',
    'kserve.io/component': 'workload',
  }
  const several = replicas > 1
  const { metadata, spec } = placedPod(
    serving,
    gpu,
    { ...lasting(serving, pods, several), volumes, containers: [vllm] },
    main,
  )
  const service: Manifest = {
    apiVersion: 'serving.kserve.io/v1alpha1',
    kind: 'LLMInferenceService',
    metadata: { name, annotations: annotationsOf(serving) },
    spec: {
      model: { uri: kserveUri(serving), name: model },
      replicas,
      ...(resources.gpus > 1 ? { parallelism: { tensor: resources.gpus } } : {}),
      ...metadata,
      template: spec,
      router: { route: {}, gateway: {} },
    },
  }
  const notes = [
    ...gpu.needs.map((need) => `needs: ${need}`),
    ...unusedNote(knobs),
    ...draftNotes(serving),
    ...weightNotes(serving),
    ...nodeNotes(serving),
    ...fetchNotes(serving),
    ...overlayNotes(serving),
    'needs KServe 0.16 or later with its LLMInferenceService controller, and a Gateway; the number of replicas is fixed',
    ...(wasMeasured(serving.evidence.measured, 'vllm')
      ? ['the controller chooses the release of vLLM, unless --image names one']
      : []),
  ]
  return {
    name: 'llminferenceservice.yaml',
    text: manifestsYaml(
      serving,
      [...claimTemplates(serving, gpu), ...disruptionBudget(serving, several, pods), service],
      notes,
    ),
  }
}
