/** vLLM: `serve.sh` with its command line. */
import { unusedNote } from '../../trials/servers/knobs.ts'
import { hubName } from '../../trials/servers/language-servers.ts'
import { quoteWord } from '../../trials/shell-words.ts'
import { weightsRemedy } from './incomplete.ts'
import {
  draftNotes,
  languageKnobs,
  quotedFlag,
  vllmFlags,
  weightNotes,
} from './language-servers.ts'
import { header, type SpecFile } from './manifest.ts'
import { scriptPlace } from './model-storage.ts'
import type { Serving } from './serving.ts'
import type { SpecTarget } from './target.ts'

export const target: SpecTarget = {
  title: 'vLLM',
  files: ['serve.sh'],
  writes: 'command line of a language model',
  needs: '`vllm` on the PATH',
  servers: ['vllm'],
  implies: 'vllm',
  imageless: true,
  render: vllmSpec,
}

/** How vLLM reads object stores by itself. */
const loadFormat = (uri = ''): readonly (readonly [string, string])[] =>
  /^(s3|gs):\/\//.test(uri) ? [['load-format', 'runai_streamer']] : []

function vllmSpec(serving: Serving): SpecFile[] {
  const knobs = languageKnobs('vllm', serving)
  const { modelUri } = serving
  // The shell itself refuses, with the reason.
  const weights =
    modelUri === undefined
      ? `"\${MODEL:?no model weights: set MODEL to their place. ${weightsRemedy}}"`
      : quoteWord(hubName(modelUri) ?? scriptPlace(modelUri))
  const flags = [
    ['served-model-name', serving.model] as const,
    ...loadFormat(modelUri),
    ...vllmFlags(knobs, serving),
  ]
  const lines = [`exec vllm serve ${weights}`, ...flags.map(quotedFlag)]
  return [
    {
      name: 'serve.sh',
      text: `#!/bin/sh\n${header(serving, [...unusedNote(knobs), ...draftNotes(serving), ...weightNotes(serving)])}${lines.join(' \\\n  ')}\n`,
    },
  ]
}
