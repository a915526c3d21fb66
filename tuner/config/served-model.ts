/** The model that a preset server serves: its folder and its name. */
import { existsSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import { OwnSettings, SettingsFileError } from '../../trials/servers/own-settings.ts'
import type { ServerKind } from '../../trials/servers/server-kinds.ts'
import { listTfservingModels } from '../../trials/servers/tfserving.ts'
import type { Context, SettingsContext } from './context.ts'
import type { ModelSpec } from './types.ts'

/** Model names in the settings of TensorFlow Serving; none if the command has no settings file. */
export function listServedNames({
  entries,
  resolveFolder,
}: Pick<SettingsContext, 'entries' | 'resolveFolder'>): readonly string[] {
  const { server, command, cwd } = entries.predictor ?? {}
  if (server !== 'tfserving' || command === undefined) return []
  const folder = cwd ?? resolveFolder(['predictor', 'command'])
  try {
    return listTfservingModels(new OwnSettings(command, folder)).map(({ name }) => name)
  } catch (error) {
    if (error instanceof SettingsFileError) return []
    throw error
  }
}

/** Weights of a language-model server: a folder, or the name on the Hub. */
export function resolveWeights(
  server: ServerKind,
  { path, name }: ModelSpec,
  report: Context['report'],
): string {
  if (path === undefined && !name.includes('/'))
    report(
      ['model'],
      `${server} needs the weights of ${name}`,
      'set their folder or name on the Hub: --model meta-llama/Llama-3.1-8B-Instruct; --backend simulated needs no weights',
    )
  return path ?? name
}

/** Resolves the model folder of TensorFlow Serving or Triton. */
export function resolveServedFolder(
  server: ServerKind,
  { path, name }: ModelSpec,
  context: Context,
): string {
  const { report } = context
  const names = listServedNames(context)
  if (names.length > 0 && !names.includes(name))
    report(
      ['model', 'name'],
      `the command serves ${names.join(', ')}, but not '${name}'`,
      names.length === 1
        ? 'leave the name out'
        : `choose one of them: model: {path: ..., name: ${names[0]}}`,
    )
  if (path === undefined)
    report(
      ['model'],
      `${server} needs the model's folder`,
      'set model: {path: models/NAME}, a folder with version folders',
    )
  else if (existsSync(path) && !statSync(path).isDirectory())
    report(
      ['model'],
      `${server} serves folders, but ${path} is a file`,
      `put the file into a folder: models/${name}/1/`,
    )
  else if (server === 'triton' && basename(path) !== name)
    report(
      ['model', 'name'],
      `Triton finds the model '${name}' in a folder of that name, not in ${basename(path)}`,
      'leave the name out',
    )
  return path ?? ''
}
