/** KServe's Hugging Face runtime, which contains vLLM and forwards unknown flags to it. */
import { formatFlag, parseHubName } from '../../../trials/servers/language-servers.ts'
import { checkPlatformUri } from '../model-storage.ts'
import type { ServerContainer, Serving } from '../serving.ts'
import {
  buildVllmFlags,
  describeLanguageServer,
  describeNodeSize,
  languageProbeTimeoutSeconds,
  resolveLanguageKnobs,
} from './language.ts'

/**
 * Returns the storage URI for KServe. A name on the Hugging Face Hub becomes hf://NAME.
 * @throws SpecError for a local path, and for storage that only a pod can mount
 */
export function resolveKserveUri({ modelUri, deployed }: Serving): string {
  const hub =
    deployed.server === 'vllm' && modelUri !== undefined ? parseHubName(modelUri) : undefined
  return hub === undefined ? checkPlatformUri(modelUri ?? '', 'KServe') : `hf://${hub}`
}

/**
 * Notes that a private or gated model needs HF_TOKEN: KServe's storage initializer downloads it with
 * the credentials of the service account.
 */
export const describeHubToken = ({ modelUri }: Serving): string[] =>
  modelUri !== undefined && parseHubName(modelUri) !== undefined
    ? [
        'a private or gated model of the Hub needs HF_TOKEN in a Secret of the service account of the pod (kubernetes.pod; otherwise the default one of the namespace)',
      ]
    : []

export function buildHuggingFaceContainer(serving: Serving, port: number): ServerContainer {
  const knobs = resolveLanguageKnobs('vllm', serving)
  return {
    ...serving.container,
    // The image has its own entry point.
    command: undefined,
    args: [`--model_name=${serving.model}`, ...buildVllmFlags(knobs, serving).map(formatFlag)],
    files: [],
    port,
    metrics: undefined,
    readyPath: '/v2/health/ready',
    livePath: '/v2/health/live',
    probeSeconds: languageProbeTimeoutSeconds.vllm,
    notes: [
      ...describeLanguageServer(knobs, serving),
      ...describeNodeSize(serving),
      'the runtime serves the OpenAI API under /openai: use tune verify --path /openai/v1/completions',
      ...describeHubToken(serving),
    ],
    sharedMemory: true,
  }
}
