/**
 * Triton on a machine: `config.pbtxt`, of an ensemble or BLS model that of each model in its folder,
 * and where the repository is known `serve.sh`, which starts Triton on it.
 */
import { quoteWord } from '../../../trials/shell-words.ts'
import { resolveScriptPath } from '../model-storage.ts'
import { configureTriton, configureTritonModels } from '../servers/triton.ts'
import type { Serving } from '../serving.ts'
import type { SpecContent, SpecOptions, SpecTarget } from '../target.ts'

export const target: SpecTarget = {
  title: 'Triton',
  files: ['config.pbtxt', 'serve.sh'],
  writes:
    'batching and instance group of the model; of an ensemble or BLS model, `NAME/config.pbtxt` for each model; `serve.sh` is written with `--model-uri` alone',
  needs: 'a Triton model repository',
  servers: ['triton'],
  implies: 'triton',
  takes: ['backend'],
  hasNoImage: true,
  render: renderConfig,
}

function renderConfig(serving: Serving, { backend }: SpecOptions): SpecContent[] {
  const { model, modelUri, tritonModels } = serving
  const configs =
    tritonModels === undefined
      ? [['config.pbtxt', configureTriton(serving, backend)] as const]
      : [...configureTritonModels(serving, tritonModels, backend)].map(
          ([name, config]) => [`${name}/config.pbtxt`, config] as const,
        )
  // The files stand beside the weights and do not name them, so they need no --model-uri.
  const written = configs.map(([name, { text, notes }]) => ({
    name,
    body: text,
    notes,
    needsWeights: false,
  }))
  if (modelUri === undefined) return written
  return [
    ...written,
    {
      name: 'serve.sh',
      body: `#!/bin/sh
exec tritonserver --model-repository=${quoteWord(resolveScriptPath(modelUri))}
`,
      notes: [
        tritonModels === undefined
          ? `put config.pbtxt into the folder ${model} of that repository`
          : 'put each config.pbtxt into the folder of its model in that repository',
      ],
    },
  ]
}
