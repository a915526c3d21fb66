/**
 * Triton on a machine: `config.pbtxt`, and where the repository is known `serve.sh`, which starts
 * Triton on it.
 */
import { quoteWord } from '../../../trials/shell-words.ts'
import { resolveScriptPath } from '../model-storage.ts'
import { configureTriton } from '../servers/triton.ts'
import type { Serving } from '../serving.ts'
import type { SpecContent, SpecOptions, SpecTarget } from '../target.ts'

export const target: SpecTarget = {
  title: 'Triton',
  files: ['config.pbtxt', 'serve.sh'],
  writes:
    'batching and instance group of the model; `serve.sh` is written with `--model-uri` alone',
  needs: 'a Triton model repository',
  servers: ['triton'],
  implies: 'triton',
  takes: ['backend'],
  hasNoImage: true,
  render: renderConfig,
}

function renderConfig(serving: Serving, { backend }: SpecOptions): SpecContent[] {
  const { model, modelUri } = serving
  const { text, notes } = configureTriton(serving, backend)
  // The file stands beside the weights and does not name them, so it needs no --model-uri.
  const config = { name: 'config.pbtxt', body: text, notes, needsWeights: false }
  if (modelUri === undefined) return [config]
  return [
    config,
    {
      name: 'serve.sh',
      body: `#!/bin/sh
exec tritonserver --model-repository=${quoteWord(resolveScriptPath(modelUri))}
`,
      notes: [`put config.pbtxt into the folder ${model} of that repository`],
    },
  ]
}
