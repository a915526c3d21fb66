/**
 * KServe's Hugging Face runtime, which contains vLLM and passes on the flags that it does not know.
 */
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
 * Resolves the address as KServe fetches it: names on the Hub become hf://.
 * @throws SpecError for a path, or an unknown kind of address
 */
export function resolveKserveUri({ modelUri, deployed }: Serving): string {
  const hub =
    deployed.server === 'vllm' && modelUri !== undefined ? parseHubName(modelUri) : undefined
  return hub === undefined ? checkPlatformUri(modelUri ?? '', 'KServe') : `hf://${hub}`
}

/**
 * KServe's storage initializer fetches the weights, with the credentials of the service account.
 */
export const describeHubToken = ({ modelUri }: Serving): string[] =>
  modelUri !== undefined && parseHubName(modelUri) !== undefined
    ? [
        'a model of the Hub that is not public needs HF_TOKEN from a Secret of the service account of the pod (kubernetes.pod, or the default of the namespace)',
      ]
    : []

export function buildHuggingFaceContainer(serving: Serving, port: number): ServerContainer {
  const knobs = resolveLanguageKnobs('vllm', serving)
  return {
    ...serving.container,
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
      'the runtime serves below /openai: use tune verify --path /openai/v1/completions',
      ...describeHubToken(serving),
    ],
    sharedMemory: true,
  }
}
