/** Reads an experiment file, ours or a Morphling ProfilingExperiment, as a layer of settings. */
import { dirname, resolve } from 'node:path'
import { importProfilingExperiment, isProfilingExperiment } from './morphling.ts'
import type { ConfigProblem } from './types.ts'
import { type Layer, readYaml, readYamlFile } from './yaml-file.ts'

interface ExperimentFile {
  /** Absent if the file could not be read. */
  readonly layer?: Layer
  readonly problems: readonly ConfigProblem[]
  readonly notices: readonly string[]
}

/**
 * @param file as the user gave it, from the working directory
 * @param text its contents, if it is not written yet
 */
export function readExperimentFile(file: string, cwd: string, text?: string): ExperimentFile {
  const path = resolve(cwd, file)
  const { layer, problems } =
    text === undefined
      ? readYamlFile(path, file, dirname(path))
      : readYaml(text, file, dirname(path))
  if (!layer || !isProfilingExperiment(layer.raw))
    return { layer: layer && { ...layer, path }, problems, notices: [] }
  const imported = importProfilingExperiment(layer)
  return {
    layer: { ...imported.layer, path },
    problems: [...problems, ...imported.problems],
    notices: imported.notices,
  }
}
