/**
 * Rewrites the command line that a user starts a server with, so that the launcher sets its address
 * and a search sets its tuned arguments. Pure.
 */
import { basename } from 'node:path'
import { dropExec, isAssignment } from '../shell-words.ts'
import { type KnownServer, knownServers, type ServerKnob } from './known-servers.ts'

/** A command as trials start it. */
export interface TunedCommand {
  /** Undefined: not a known server. */
  readonly server?: KnownServer
  /** With placeholders for host, port and tuned parameters. */
  readonly command: readonly string[]
  /** Environment variables that trials set, with the same placeholders. */
  readonly env: Readonly<Record<string, string>>
  readonly parameters: readonly TunableKnob[]
  /** Folder and name of the model, by the server's own arguments. */
  readonly models?: string
  readonly model?: string
  /**
   * Whether an argument sets the port; otherwise only the variable PORT does, if the server reads
   * it.
   */
  readonly setsPort: boolean
}

interface TunableKnob extends ServerKnob {
  /** Its value in the user's command. */
  readonly was?: string
}

/** Words before the program, e.g. python3 -m, env A=b, uv run. */
const maxWordsBefore = 6

const all: readonly KnownServer[] = knownServers

/** Recognises the server that a command starts; undefined if the table does not have it. */
export function recogniseServer(words: readonly string[]): KnownServer | undefined {
  const [title] = words
  // gunicorn names its processes 'gunicorn: master [app:app]'.
  const named = title && /^([\w-]+): (master|worker)/.exec(title)?.[1]
  if (named) return all.find(({ programs }) => programs.includes(named))
  return findServerStart(words)?.server
}

/** Finds the server that a command starts, and the index of the word that names it. */
function findServerStart(
  words: readonly string[],
): { readonly server: KnownServer; readonly at: number } | undefined {
  const first = words.findIndex((word, i) => i > 0 && !isAssignment(word))
  for (const [at, word] of words.slice(0, Math.max(first, 0) + maxWordsBefore).entries()) {
    // A script, not a program.
    if (/\s/.test(word)) continue
    const name = words[at - 1] === '-m' ? word : basename(word)
    const server = all.find(
      ({ programs, subcommand }) =>
        programs.includes(name) &&
        (subcommand === undefined || words[at - 1] === '-m' || words[at + 1] === subcommand),
    )
    if (server) return { server, at }
  }
  return undefined
}

/** Recognises a server by the header `server` of its answers. */
export const findServerByHeader = (header: string | undefined): KnownServer | undefined =>
  header === undefined
    ? undefined
    : all.find((server) => server.header && header.toLowerCase().startsWith(server.header))

/** Rewrites the command with placeholders for the address and the tuned parameters. */
export function rewriteCommand(asTyped: readonly string[]): TunedCommand {
  const given = replaceFixedPort(dropExec(asTyped))
  const server = recogniseServer(given)
  let command = [...given]
  const env: Record<string, string> = {}
  if (server?.preset) {
    const { models, model } = server.preset
    const read = {
      models: readArgument(command, models),
      model: model && readArgument(command, model),
    }
    for (const name of [models, model, ...presetPorts])
      if (name) command = removeArgument(command, name)
    return { server, command, env, parameters: server.knobs, ...read, setsPort: true }
  }
  const at = findServerStart(command)?.at ?? 0
  const next = server?.modelNext && command[at + 2]
  const model = next?.startsWith('-') ? undefined : next
  // Index for new options.
  const end = server?.optionsFirst ? at + 1 : undefined
  const parameters: TunableKnob[] = []
  for (const { args, env: variable, value, insteadOf = [] } of server?.listens ?? []) {
    for (const name of insteadOf) command = removeArgument(command, name)
    if (variable) env[variable] = value
    else if (args) command = setSingleValue(command, args, value, end)
  }
  for (const knob of server?.knobs ?? []) {
    const was = knob.args
      ?.map((name) => readArgument(command, name))
      .find((value) => value !== undefined)
    if (knob.setting !== undefined) continue
    if (knob.under && !isUnder(command, knob.under)) continue
    if (knob.needs !== undefined && !command.includes(knob.needs)) continue
    // The user's command has a placeholder already.
    if (was?.includes('${')) continue
    const placeholder = `\${${knob.name}}`
    if (knob.env) env[knob.env] = placeholder
    else if (knob.args) command = setValue(command, knob.args, placeholder, end)
    parameters.push({
      ...knob,
      values: extendRange(knob.values, was),
      ...(was !== undefined && { was }),
    })
  }
  if (server?.counts !== undefined && !command.includes(server.counts))
    command = [...command, server.counts]
  const told = server !== undefined && server.listens.length > 0
  if (told || command.some((word) => word.includes('${port}')))
    return {
      server,
      command,
      env,
      parameters,
      ...(model !== undefined && { model }),
      setsPort: true,
    }
  const ported = setPort(command)
  if (ported) return { server, command: ported, env, parameters, setsPort: true }
  return { server, command, env: { ...env, PORT: '${port}' }, parameters, setsPort: false }
}

/** Extends a range that ends below the current value. */
function extendRange(values: ServerKnob['values'], was: string | undefined): ServerKnob['values'] {
  const [, low, high, factor = ''] =
    (typeof values === 'string' && /^(\d+)\.\.(\d+)( x\d+)?$/.exec(values)) || []
  const used = Number(was)
  if (high === undefined || !Number.isInteger(used) || used <= Number(high)) return values
  return `${low}..${used}${factor}`
}

const presetPorts = ['--http-port', '--grpc-port', '--rest_api_port', '--port']

/** Finds '--name value', '--name=value' and '-n4'. */
function findArgument(
  words: readonly string[],
  name: string,
): { at: number; length: 1 | 2; value: string } | undefined {
  for (const [at, word] of words.entries()) {
    if (at === 0) continue
    if (word === name && words[at + 1] !== undefined)
      return { at, length: 2, value: words[at + 1]! }
    if (word.startsWith(`${name}=`)) return { at, length: 1, value: word.slice(name.length + 1) }
    if (/^-\w$/.test(name) && word.startsWith(name) && isGlued(word))
      return { at, length: 1, value: word.slice(2) }
  }
  return undefined
}

/** -w4, -b0.0.0.0:8000, -b${host}:${port}, -kgthread, and no long name behind one dash. */
const isGlued = (word: string): boolean =>
  /^-\w(?:\d+$|\$\{|[\w.*[\]-]*:|unix:)/.test(word) || /^-k\w/.test(word)

const readArgument = (words: readonly string[], name: string): string | undefined =>
  findArgument(words, name)?.value

function removeArgument(words: readonly string[], name: string): string[] {
  const place = findArgument(words, name)
  if (place === undefined) return [...words]
  return removeArgument(
    [...words.slice(0, place.at), ...words.slice(place.at + place.length)],
    name,
  )
}

/** Sets a value as `setValue` does, and removes repetitions: servers listen on each of them. */
function setSingleValue(
  words: readonly string[],
  names: readonly [string, ...string[]],
  value: string,
  end?: number,
): string[] {
  const places = names.flatMap((name) => findArguments(words, name)).sort((a, b) => a.at - b.at)
  const kept = places.find((place) => place.value.includes('${')) ?? places[0]
  if (kept === undefined) return setValue(words, names, value, end)
  const dropped = new Set(
    places.flatMap(({ at, length }) =>
      at === kept.at ? [] : Array.from({ length }, (_, i) => at + i),
    ),
  )
  const left = words.filter((_, i) => !dropped.has(i))
  return setValue(left, names, value, end)
}

/** Finds all occurrences of an argument, in order. */
function findArguments(
  words: readonly string[],
  name: string,
): NonNullable<ReturnType<typeof findArgument>>[] {
  const places: NonNullable<ReturnType<typeof findArgument>>[] = []
  let from = 0
  while (from < words.length) {
    // `findArgument` skips the first word, the program.
    const place = findArgument(['', ...words.slice(Math.max(1, from))], name)
    if (place === undefined) break
    const at = place.at - 1 + Math.max(1, from)
    places.push({ ...place, at })
    from = at + place.length
  }
  return places
}

/** PORT=8000 before a program becomes the trial's port. */
const replaceFixedPort = (words: readonly string[]): readonly string[] =>
  words[0] === 'env'
    ? words.map((word, i) =>
        /^PORT=\d+$/.test(word) && words.slice(1, i).every(isAssignment) ? 'PORT=${port}' : word,
      )
    : words

const isUnder = (
  words: readonly string[],
  { args, values }: NonNullable<ServerKnob['under']>,
): boolean => args.every((name) => values.includes(readArgument(words, name) ?? values[0]!))

function setValue(
  words: readonly string[],
  names: readonly [string, ...string[]],
  value: string,
  end = words.length,
): string[] {
  for (const name of names) {
    const place = findArgument(words, name)
    if (place?.value.includes('${')) return [...words]
    if (place)
      return [...words.slice(0, place.at), name, value, ...words.slice(place.at + place.length)]
  }
  // Two words, because not every server reads '--name=value'.
  return [...words.slice(0, end), names[0], value, ...words.slice(end)]
}

const portNames = [
  '--port',
  '--http-port',
  '--http_port',
  '-p',
  '--bind',
  '-b',
  '--listen',
  '--address',
  '--addr',
]
const portPattern = /^((?:\d+\.\d+\.\d+\.\d+|localhost|\[?::\]?)?:)?\d{2,5}$/
/** Names that end in 'port': --server.port, -Dserver.port=8080, PORT=3000, API_PORT=8000. */
const portNamePattern = /^(?:--?[\w.-]*port|\w*PORT)$/i
const otherPorts = /grpc|metric|admin|debug|management|monitor|probe/i

/** The command with ${port} for its port; undefined if it names none. */
function setPort(words: readonly string[]): string[] | undefined {
  const alike = words
    .map((word) => word.replace(/=.*$/s, ''))
    .filter((name) => portNamePattern.test(name) && !otherPorts.test(name))
  for (const name of [...portNames, ...alike]) {
    const place = findArgument(words, name)
    if (!place || !portPattern.test(place.value)) continue
    const value = place.value.includes(':') ? '${host}:${port}' : '${port}'
    const isJoined = words[place.at]!.startsWith(`${name}=`)
    const written = isJoined ? [`${name}=${value}`] : [name, value]
    return [...words.slice(0, place.at), ...written, ...words.slice(place.at + place.length)]
  }
  const at = words.findIndex((word, i) => i > 0 && word.includes(':') && portPattern.test(word))
  return at < 0 ? undefined : words.with(at, '${host}:${port}')
}
