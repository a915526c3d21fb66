import { expect, test } from 'vitest'
import { loadExperimentDocument } from '../load-experiment.ts'
import { machine, problemLines, useWorkspace } from '../testing/workspace.ts'

const { load, write, path } = useWorkspace()
/** With a file that is no model: it is not read before a trial. */
const flags = () => {
  write('m.gguf', '')
  return { model: path('m.gguf'), sloTtft: '2s', sloTpot: '60ms', devices: 'cpu' as const }
}

test('more sequences than llama.cpp takes are refused where they are written, before any trial', () => {
  expect(load({ ...flags(), param: ['maxNumSeqs=64,256'] }).predictor).toMatchObject({
    kind: 'builtin',
    engine: 'gguf',
    protocol: 'openai',
  })
  const asked = (more: object) => problemLines(() => load({ ...flags(), ...more }))
  expect(asked({ param: ['maxNumSeqs=64,512'] })).toEqual([
    expect.stringMatching(/maxNumSeqs: 512 sequences, but llama.cpp supports at most 256/),
  ])
  expect(asked({ pin: ['maxNumSeqs=300'] })).toEqual([
    expect.stringMatching(/maxNumSeqs: 300 sequences, but llama.cpp supports at most 256/),
  ])
})

test('requests are cut to the context, unless its length is tuned: then all configurations get the same', () => {
  const payload = (more: object) => load({ ...flags(), ...more }).load.payload
  expect(payload({})).not.toHaveProperty('keepOverlongPrompts')
  expect(payload({ param: ['maxModelLen=512'] })).not.toHaveProperty('keepOverlongPrompts')
  expect(payload({ pin: ['maxModelLen=512'] })).not.toHaveProperty('keepOverlongPrompts')
  const tuned = load({ ...flags(), param: ['maxModelLen=512,1024'] })
  expect(tuned.load.payload).toMatchObject({ keepOverlongPrompts: true })
  expect(
    loadExperimentDocument(tuned.document, tuned.name, { cwd: path(), machine }).load.payload,
  ).toEqual(tuned.load.payload)
})
