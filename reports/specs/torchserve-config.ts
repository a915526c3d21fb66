/** TorchServe: `model-config.yaml` of a model archive. */
import { Knobs, unusedNote } from '../../trials/launchers/server-files/knobs.ts'
import { header, type SpecFile, yamlOf } from './manifest.ts'
import type { Serving } from './serving.ts'
import type { SpecTarget } from './target.ts'

export const target: SpecTarget = {
  title: 'TorchServe',
  servers: ['torchserve'],
  implies: 'torchserve',
  imageless: true,
  refusesModelUri: {
    why: 'the weights are in the archive that holds this file',
    hint: 'build it with torch-model-archiver --config-file model-config.yaml',
  },
  render: torchserveSpec,
}

function torchserveSpec(serving: Serving): SpecFile[] {
  const knobs = new Knobs(serving.configuration)
  const workers = knobs.number('instances', 'workers')
  const delayMs = knobs.number('maxBatchDelay', 'maxDelayMs')
  const config = {
    minWorkers: knobs.number('minWorkers') ?? workers,
    maxWorkers: knobs.number('maxWorkers') ?? workers,
    batchSize: knobs.number('batchSize', 'maxBatchSize'),
    // Whole milliseconds only.
    maxBatchDelay: delayMs === undefined ? undefined : Math.max(1, Math.round(delayMs)),
    jobQueueSize: knobs.number('jobQueueSize', 'queueLimit'),
    startupTimeout: serving.held.startupSeconds,
    deviceType: serving.resources.gpu ? 'gpu' : 'cpu',
  }
  return [{ name: 'model-config.yaml', text: `${header(serving, unusedNote(knobs))}${yamlOf(config)}` }]
}
