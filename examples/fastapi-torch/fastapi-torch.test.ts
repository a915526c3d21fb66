/**
 * The experiment file of the example. The tutorial "Tune your own server" starts the same
 * application, as its reader does: tuner/paths.test.ts.
 */
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { findTemplateProblems } from '../../trials/launchers/template-problems.ts'
import { loadExperiment } from '../../tuner/config/load-experiment.ts'

const here = dirname(fileURLToPath(import.meta.url))

test('every tuned value reaches the server', () => {
  const { predictor, space } = loadExperiment({
    file: join(here, 'experiment.yaml'),
    flags: {},
    environment: {},
    cwd: here,
    machine: { cpuCores: 2, gpus: [] },
  })
  if (predictor.kind !== 'command') throw new Error('the experiment has a predictor of its own')
  expect(findTemplateProblems(predictor, space.parameters)).toEqual([])
})
