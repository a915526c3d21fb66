/** Servers of language models as containers: their images, command lines, and what was tuned in the words of each. */
import { Knobs, unusedNote } from '../../trials/launchers/server-files/knobs.ts'
import { type LanguageServer, languagePrograms } from '../../trials/launchers/server-files/language-programs.ts'
import { weightsToFill } from '../../trials/predictor/weights-to-fill.ts'
import { weightsPlace } from './model-storage.ts'
import type { Container, Serving, WholeContainer } from './serving.ts'

const port = 8000

/** Where each counts its requests. */
const requestsMetrics: Readonly<Record<LanguageServer, string>> = {
  vllm: 'vllm:request_success_total',
  sglang: 'sglang:e2e_request_latency_seconds_count',
  tgi: 'tgi_request_success',
}

/** What was tuned as the server's flags. */
export const languageFlags = (server: LanguageServer, knobs: Knobs, { resources: { gpu, gpuShare, gpus } }: Serving) =>
  languagePrograms[server].flags(knobs, { gpus, ...(gpu && gpuShare < 1 ? { share: gpuShare } : {}) })

/** The container before its flags: the user names the weights, or a placeholder stands for them. */
export function languageContainer(server: LanguageServer, model: string, modelUri: string | undefined): Container {
  const { image, command, serves } = languagePrograms[server]
  const weights = modelUri === undefined ? weightsToFill : weightsPlace(modelUri, server)
  const args = serves({ port, model })
  return { image, command: command(weights), args, port, readyPath: '/health', requestsMetric: requestsMetrics[server] }
}

/** With what was tuned. */
export function wholeLanguageContainer(server: LanguageServer, serving: Serving): WholeContainer {
  const { container, configuration } = serving
  const knobs = new Knobs(configuration)
  const flags = languageFlags(server, knobs, serving).map(([name, value]) => `--${name}=${value}`)
  const notes = [...(container.notes ?? []), ...unusedNote(knobs)]
  return { ...container, args: [...(container.args ?? []), ...flags], notes, sharedMemory: true }
}
