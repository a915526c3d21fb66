/** For tests: a folder of its own, experiments loaded in it, and what is wrong with them. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach } from 'vitest'
import { describeExperiment } from '../describe-experiment.ts'
import type { FlagValues } from '../flags/flags.ts'
import { type ExperimentRequest, loadExperiment } from '../load-experiment.ts'
import {
  ConfigError,
  type ConfigProblem,
  type Experiment,
  type MachineCapabilities,
} from '../types.ts'

export const machine: MachineCapabilities = { cpuCores: 4, gpus: [] }
export const bert = { model: 'bert', slo: '50ms' }

/** A new folder for each test of the file that calls it. */
export function useWorkspace() {
  let cwd = ''
  beforeEach(() => {
    cwd = mkdtempSync(join(tmpdir(), 'tune-experiment-'))
  })
  afterEach(() => rmSync(cwd, { recursive: true }))
  const write = (name: string, text: string) => {
    mkdirSync(dirname(join(cwd, name)), { recursive: true })
    writeFileSync(join(cwd, name), text)
  }
  return {
    path: (name = '.') => join(cwd, name),
    write,
    load: (flags: FlagValues, rest: Partial<ExperimentRequest> = {}): Experiment =>
      loadExperiment({ cwd, machine, flags, ...rest }),
    loadFile: (text: string, flags: FlagValues = {}, facts = machine): Experiment => {
      write('e.yaml', text)
      return loadExperiment({ cwd, machine: facts, flags, file: 'e.yaml' })
    },
  }
}

/** @throws Error when nothing was wrong */
export function problemsOf(make: () => unknown): readonly ConfigProblem[] {
  try {
    make()
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
  throw new Error('was accepted')
}

/** 'e.yaml:3:1 what is wrong' */
export const problemLines = (make: () => unknown): string[] =>
  problemsOf(make).map(({ where, what }) => `${where} ${what}`)

export function valuesOf(experiment: Experiment, name: string) {
  const parameter = experiment.space.parameters.find((candidate) => candidate.name === name)
  return (
    parameter &&
    ('values' in parameter ? parameter.values : [parameter.min, parameter.max, parameter.step])
  )
}

export const findOrigin = (experiment: Experiment, path: string) =>
  describeExperiment(experiment).find((row) => row.path === path)?.origin
