/** TensorFlow Serving on a machine: `serve.sh` with the two files that it names. */
import { quoteWord } from '../../../trials/shell-words.ts'
import { resolveScriptPath } from '../model-storage.ts'
import { configureTfserving } from '../servers/tfserving.ts'
import type { Serving } from '../serving.ts'
import type { SpecContent, SpecTarget } from '../target.ts'

export const target: SpecTarget = {
  title: 'TensorFlow Serving',
  files: ['serve.sh', 'batching_parameters.txt', 'models.config'],
  writes: 'command line, batching parameters and version policy',
  needs: '`tensorflow_model_server` on the PATH',
  servers: ['tfserving'],
  implies: 'tfserving',
  hasNoImage: true,
  render: renderScript,
}

function renderScript(serving: Serving): SpecContent[] {
  const { model, modelUri } = serving
  const basePath = modelUri === undefined ? `/models/${model}` : resolveScriptPath(modelUri)
  const { args, files, notes } = configureTfserving(serving, {
    grpcPort: 8500,
    restPort: 8501,
    modelName: model,
    basePath,
    configFolder: '.',
    modelConfigFile: true,
  })
  const folder = quoteWord(basePath)
  // Without weights the server itself would wait for ever.
  const check =
    modelUri === undefined
      ? `[ -d ${folder} ] || { echo 'no model weights in '${folder} >&2; exit 1; }\n`
      : ''
  return [
    {
      name: 'serve.sh',
      body: `#!/bin/sh
cd "$(dirname "$0")" || exit 1
${check}${['exec tensorflow_model_server', ...args.map(quoteWord)].join(' \\\n  ')}
`,
      notes,
    },
    ...files.map(({ path, contents }) => ({ name: path.replace('./', ''), body: contents })),
  ]
}
