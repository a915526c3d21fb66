/** vLLM on a machine: `serve.sh` with its command line. */
import { parseHubName } from '../../../trials/servers/language-servers.ts'
import { quoteWord } from '../../../trials/shell-words.ts'
import { resolveScriptPath } from '../model-storage.ts'
import { weightsRemedy } from '../placeholders.ts'
import {
  buildVllmFlags,
  describeLanguageServer,
  quoteFlag,
  resolveLanguageKnobs,
} from '../servers/language.ts'
import type { Serving } from '../serving.ts'
import type { SpecContent, SpecTarget } from '../target.ts'

export const target: SpecTarget = {
  title: 'vLLM',
  files: ['serve.sh'],
  writes: 'command line of a language model',
  needs: '`vllm` on the PATH',
  servers: ['vllm'],
  implies: 'vllm',
  hasNoImage: true,
  render: renderScript,
}

function renderScript(serving: Serving): SpecContent {
  const { model, modelUri } = serving
  const knobs = resolveLanguageKnobs('vllm', serving)
  // The shell itself refuses to start without weights, with the reason.
  const weights =
    modelUri === undefined
      ? `"\${MODEL:?no model weights: set MODEL to their place. ${weightsRemedy}}"`
      : quoteWord(parseHubName(modelUri) ?? resolveScriptPath(modelUri))
  const flags: (readonly [string, string?])[] = [
    ['served-model-name', model],
    // With this loader vLLM itself reads s3:// and gs://.
    ...(/^(s3|gs):\/\//.test(modelUri ?? '') ? [['load-format', 'runai_streamer'] as const] : []),
    ...buildVllmFlags(knobs, serving),
  ]
  return {
    name: 'serve.sh',
    body: `#!/bin/sh
${[`exec vllm serve ${weights}`, ...flags.map(quoteFlag)].join(' \\\n  ')}
`,
    notes: describeLanguageServer(knobs, serving),
  }
}
