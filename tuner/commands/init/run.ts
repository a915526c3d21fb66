/** `tune init`: from a server, a command or a model to an experiment file that was tried. */
import { existsSync, writeFileSync } from 'node:fs'
import { basename, delimiter, dirname, join, relative, resolve } from 'node:path'
import { isRecord } from '../../../profiler/plain-record.ts'
import { type ProtocolName, protocolTable } from '../../../profiler/protocols/protocol-table.ts'
import { isGrpcUrl, isSocketUrl } from '../../../profiler/server-address.ts'
import { findArchitecture } from '../../../trials/devices/architecture.ts'
import { DeviceModelError } from '../../../trials/devices/device-model-error.ts'
import { findServer } from '../../../trials/launchers/local/processes.ts'
import type { TypedCommand } from '../../../trials/launchers/typed-command.ts'
import { inspectMachine, type MachineFacts } from '../../../trials/machine/machine-facts.ts'
import { findProgram, isProgram as isProgramFile } from '../../../trials/machine/programs.ts'
import { makeFolder } from '../../../trials/private-files.ts'
import { redactSecrets } from '../../../trials/secrets.ts'
import { findServerByHeader, recogniseServer } from '../../../trials/servers/own-command.ts'
import { quoteWord } from '../../../trials/shell-words.ts'
import { type FlagValues, flagsToLayer } from '../../config/flags/flags.ts'
import { loadExperiment } from '../../config/load-experiment.ts'
import { experimentJsonSchema } from '../../config/schema/experiment-schema.ts'
import { takeSecrets } from '../../config/secret-values.ts'
import { surroundings } from '../../config/surroundings.ts'
import { ConfigError, type Experiment } from '../../config/types.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { type Asker, asker } from '../../render/asker.ts'
import { interruptible } from '../../signals.ts'
import { mustBeWritable } from '../../writable-places.ts'
import type { Discovered } from './discover.ts'
import { experimentText } from './experiment-text.ts'
import {
  commandPlan,
  commandTarget,
  type Plan,
  servedAs,
  sloFault,
  sloGuess,
  type Target,
  targetOf,
} from './plan.ts'
import { probe } from './probe.ts'
import { smoke } from './smoke.ts'

export interface InitFlags extends FlagValues {
  readonly file: string
  readonly force?: boolean
  readonly yes?: boolean
  readonly smoke: boolean
  readonly url?: string
  readonly command?: string
  readonly model?: string
}

type Draft = Record<string, unknown>

/** Returns the exit code. */
export async function init(words: readonly string[], flags: InitFlags): Promise<number> {
  const cwd = process.cwd()
  if (existsSync(resolve(cwd, flags.file)) && !flags.force)
    throw new UserError(
      `${flags.file} already exists`,
      'choose another file with -f FILE, or overwrite it with --force',
      exitCodes.usage,
    )
  mustBeWritable({ '-f': flags.file })
  const { layer, problems } = flagsToLayer(flags, cwd)
  if (problems.length > 0) throw new ConfigError(problems)
  const { signal, dispose } = interruptible(() => process.stderr.write('stopping\n'))
  const ask = asker(!flags.yes, signal, () => process.kill(process.pid, 'SIGINT'))
  try {
    const target = await targetFrom(words, flags, ask)
    const machine = await inspectMachine()
    return await new Initialised(target, layer.raw as Draft, flags, machine, ask, signal).run()
  } catch (error) {
    if (signal.aborted) return exitCodes.interrupted
    throw error
  } finally {
    ask.close()
    dispose()
  }
}

async function targetFrom(
  words: readonly string[],
  { url, command, model }: InitFlags,
  ask: Asker,
): Promise<Target> {
  if (words.length === 0 && url !== undefined) return { kind: 'url', url }
  if (words.length === 0 && command !== undefined) return commandTarget(command)
  if (words.length === 0 && model !== undefined) return { kind: 'model', model }
  const said =
    words.length > 0
      ? words
      : [
          await ask.say(
            'What do you want to tune? Enter the URL of a server, the command that starts one, or a model',
          ),
        ]
  if (said[0] === '')
    throw new UserError(
      'tune init: no server, command or model',
      'tune init http://127.0.0.1:8000, tune init gunicorn app:app, or tune init bert',
      exitCodes.usage,
    )
  return targetOf(said, isProgram)
}

const isProgram = (name: string): boolean =>
  name.includes('/')
    ? isProgramFile(resolve(process.cwd(), name))
    : findProgram((process.env.PATH ?? '').split(delimiter), name) !== undefined

/**
 * Whether it is the first word of a command, and no URL, model or whole command. A word that is
 * none of them is one too: of a program that is missing.
 */
export function startsCommand(word: string): boolean {
  if (/\s/.test(word.trim())) return isProgram(word)
  const target = targetOf([word], isProgram)
  return (
    target.kind === 'command' ||
    (target.kind === 'model' && !/[/\\]|\.(onnx|gguf|json)$/.test(word) && !isArchitecture(word))
  )
}

function isArchitecture(name: string): boolean {
  try {
    return findArchitecture(name) !== undefined
  } catch (error) {
    if (error instanceof DeviceModelError) return false
    throw error
  }
}

class Initialised {
  readonly #cwd = process.cwd()
  readonly #said: Draft
  /** What is known of the predictor so far, the user's own words last. */
  #document: Draft
  readonly #comments: Record<string, string | undefined> = {}
  readonly #foot: string[] = []
  readonly #variables: string[] = []

  constructor(
    private readonly target: Target,
    said: Draft,
    private readonly flags: InitFlags,
    private readonly machine: MachineFacts,
    private readonly ask: Asker,
    private readonly signal: AbortSignal,
  ) {
    this.#said = said
    this.#document = {}
  }

  async run(): Promise<number> {
    const { target } = this
    const plan = this.#plan()
    this.#document = {
      ...this.#document,
      ...plan,
      ...this.#said,
      ...(this.#document.pin !== undefined && { pin: this.#document.pin }),
    }
    this.#document.predictor = plan.predictor && {
      ...plan.predictor,
      ...(this.#said.predictor as Draft),
    }
    this.#document.space = merged(plan.space, this.#said.space)
    const preset = plan.predictor && 'server' in plan.predictor
    const found = target.kind === 'model' || preset ? undefined : await this.#probe()
    if (found) this.#takeFound(found)
    await this.#slo(found)
    const text = this.#textOf(this.#withoutSecrets())
    const experiment = this.#load(text)
    this.#write(text)
    const next = `tune -f ${this.flags.file}`
    const code = this.flags.smoke
      ? await smoke(experiment, this.machine, this.signal)
      : exitCodes.ok
    for (const variable of this.#variables)
      say(`The file does not contain the secret: export ${variable}=... before you run tune.`)
    say(code === exitCodes.ok ? `Next: ${next}` : `Correct ${this.flags.file}, then: ${next}`)
    return code
  }

  #plan(): Partial<Plan> {
    const { target } = this
    if (target.kind === 'model') return { model: target.model }
    return target.kind === 'url' ? this.#urlPlan(target.url) : this.#commandPlan(target)
  }

  #commandPlan(typed: TypedCommand): Omit<Plan, 'comments'> {
    const { tuned, comments, ...plan } = commandPlan(
      typed,
      this.#cwd,
      this.#said.model !== undefined,
    )
    const { server, parameters } = tuned
    note(
      server
        ? `Recognised ${server.title}: ${parameters.map(({ name }) => name).join(', ') || 'no tunable arguments'}.`
        : 'The server is unknown to tune: only CPU cores are tuned.',
    )
    if (server?.note) this.#foot.push(`${server.title}: ${server.note}`)
    if (parameters.length === 0) this.#foot.push(...ownKnobs)
    Object.assign(this.#comments, comments)
    return plan
  }

  #urlPlan(url: string): Pick<Plan, 'predictor'> {
    const { hostname, port, protocol } = URL.canParse(url)
      ? new URL(url)
      : { hostname: '', port: '', protocol: '' }
    const local = isSocketUrl(url) || ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
    const here =
      local && hostname !== ''
        ? findServer(Number(port) || (/s:$/.test(protocol) ? 443 : 80))
        : undefined
    this.#comments.pin = local
      ? 'the resources it runs on, which set its price'
      : 'set the resources it runs on, which set its price'
    const server = here && recogniseServer(here.words)
    if (here && server) {
      note(`Recognised ${server.title}, process ${here.pid}.`)
      this.#foot.push(...this.#startedHere(here))
    }
    const cores = local ? this.machine.affinity.length : 1
    this.#document.pin = { cpuCores: cores, ...(this.#said.pin as Draft) }
    return { predictor: { url } }
  }

  /** How trials would start what runs here: for a comment. */
  #startedHere({ words, cwd }: { words: readonly string[]; cwd: string }): string[] {
    const named = /^[\w-]+: (?:master|worker) \[(.*)\]/.exec(words[0]!)?.[1]
    const command = named === undefined ? words : [words[0]!.split(':')[0]!, named]
    const quoted = command.map(quoteWord).join(' ')
    return [measuredAsItIs, `  cd ${cwd} && tune init ${quoted}`]
  }

  async #probe(): Promise<Discovered> {
    const { predictor } = this.#document as { predictor: Draft }
    this.#checkSlo()
    // A body and a path are asked for below, and JSON needs one to be read at all.
    const unknown = predictor.protocol === undefined && !isGrpcUrl(String(predictor.url ?? ''))
    const provisional = {
      ...this.#document,
      predictor: {
        ...predictor,
        ...(unknown && { protocol: 'json' }),
        ...(predictor.path === undefined &&
          (unknown || protocolTable[predictor.protocol as ProtocolName]?.needsPath) && {
            path: '/predict',
          }),
      },
    }
    const experiment = this.#load(this.#textOf({ model: 'model', ...provisional, slo: '1s' }))
    const said = {
      protocol: predictor.protocol as string | undefined,
      model: modelName(this.#document.model),
      path: predictor.path as string | undefined,
    }
    return probe(experiment, said, this.machine, this.signal)
  }

  /**
   * What is wrong with the SLO by itself is said before anything is started. One on parts of a
   * stream goes with protocols that stream, and none is known yet.
   */
  #checkSlo(): void {
    const { slo } = this.#said
    if (slo === undefined) return
    const predictor = { url: 'http://localhost', protocol: 'openai' }
    this.#load(this.#textOf({ model: 'model', slo, predictor, pin: { cpuCores: 1 } }))
  }

  #takeFound(found: Discovered): void {
    const { protocol, model, path, healthPath, body, form, otherPaths, request, answer, answerMs } =
      found
    note(
      `It speaks ${protocolTable[protocol].title} and answers in ${answerMs < 10 ? answerMs.toFixed(1) : Math.round(answerMs)} ms:`,
    )
    say(redactSecrets(`  ${request}\n  → ${answer}`))
    const server =
      this.target.kind === 'url' && this.#foot.length === 0
        ? findServerByHeader(found.server)
        : undefined
    if (server) {
      note(`Recognised ${server.title} by its answers.`)
      this.#foot.push(measuredAsItIs, `  tune init ${server.programs[0]} ...`)
    }
    const { streams, needsPath } = protocolTable[protocol]
    // A server of plain JSON has no name for it: the folder's will do. A language model answers to
    // the very name that it was asked by.
    if (streams && !isRecord(this.#document.model)) this.#document.model = servedAs(model)
    else this.#document.model ??= needsPath ? basename(this.#cwd) : servedAs(model)
    const known = {
      protocol,
      ...(path && { path }),
      ...(healthPath && { healthPath }),
      ...(body && { body }),
      ...(form && { form }),
    }
    this.#document.predictor = {
      ...(this.#document.predictor as Draft),
      ...known,
      ...(this.#said.predictor as Draft),
    }
    this.#comments['predictor.body'] =
      'request template: tune fills in {{text}}, {{image}} and {{int}}; use --payload for your own requests'
    if (found.knowsNoEos) {
      const load = this.#document.load as Draft | undefined
      this.#document.load = { ...load, payload: { ...(load?.payload as Draft), ignoreEos: false } }
      this.#comments['load.payload.ignoreEos'] =
        'the server rejects ignore_eos, so the model determines the length of answers'
    }
    if (otherPaths.length > 0)
      this.#comments['predictor.path'] = `other paths: ${otherPaths.slice(0, 5).join(', ')}`
  }

  async #slo(found: Discovered | undefined): Promise<void> {
    if (this.#document.slo !== undefined) return
    const streams = found && protocolTable[found.protocol].streams
    const guess = streams
      ? { ttft: '500ms', tpot: '50ms' }
      : found
        ? sloGuess(found.answerMs)
        : '50ms'
    const text = streams ? "'ttft<500ms tpot<50ms'" : String(guess)
    const question = `Latency SLO, such as 50ms or 'p95<80ms' [${text}]`
    let said = await this.ask.say(question)
    for (let fault = sloFault(said); fault !== undefined; fault = sloFault(said)) {
      note(fault)
      said = await this.ask.say(question)
    }
    this.#document.slo = said === '' ? guess : said
    if (said === '') this.#comments.slo = 'a guess: set the latency that 99 % of requests must meet'
    if (said === '' && isRecord(guess)) this.#comments['slo.ttft'] = 'a guess'
  }

  /** References in place of what is secret: the file may be kept and shared. */
  #withoutSecrets(): Draft {
    const { predictor } = this.#document
    if (!isRecord(predictor)) return this.#document
    const taken = takeSecrets({ predictor } as Parameters<typeof takeSecrets>[0], {
      folder: this.#cwd,
    })
    for (const [reference, value] of taken.secrets) {
      const name = reference.replace(/^env:/, '')
      process.env[name] = value
      this.#variables.push(name)
    }
    return { ...this.#document, predictor: taken.entries.predictor }
  }

  #textOf(document: Draft): string {
    const order = [
      'name',
      'model',
      'slo',
      'demand',
      'devices',
      'predictor',
      'space',
      'pin',
      'load',
      'expect',
    ]
    const keys = [...order, ...Object.keys(document).filter((key) => !order.includes(key))]
    const written: Draft = {
      ...document,
      slo: shortSlo(document.slo),
      predictor: inOrder(document.predictor),
    }
    const isSaid = (value: unknown) =>
      value !== undefined && !(isRecord(value) && Object.keys(value).length === 0)
    const entries = keys.flatMap((key) => (isSaid(written[key]) ? [[key, written[key]]] : []))
    const head = [
      `Run it with tune -f ${this.flags.file}; tune config -f ${this.flags.file} shows every value. Keys: docs/reference/experiment-file.md`,
    ]
    const schemaPath = relative(dirname(resolve(this.#cwd, this.flags.file)), this.#schemaFile())
    return experimentText({
      document: Object.fromEntries(entries),
      comments: this.#comments,
      head,
      foot: this.#foot,
      schemaPath,
    })
  }

  #schemaFile(): string {
    return join(this.#cwd, '.tune', 'experiment.schema.json')
  }

  #load(text: string): Experiment {
    return loadExperiment({ file: this.flags.file, text, ...surroundings(this.machine) })
  }

  #write(text: string): void {
    makeFolder(dirname(this.#schemaFile()))
    writeFileSync(this.#schemaFile(), `${JSON.stringify(experimentJsonSchema(), null, 2)}\n`)
    writeFileSync(resolve(this.#cwd, this.flags.file), text, {
      flag: this.flags.force ? 'w' : 'wx',
    })
    say(`Wrote ${this.flags.file}.`)
  }
}

const measuredAsItIs = 'tune measures a running server as it is. To tune it, let trials start it:'
const ownKnobs = [
  'To tune more, put a placeholder such as ${workers} into the command, its environment or a file, and list its values:',
  '  space: {workers: {values: 1..4, category: server}}',
]

const say = (text: string) => process.stdout.write(`${text}\n`)
const note = (text: string) => process.stderr.write(`${text}\n`)
/** What is read first comes first. */
const predictorOrder = [
  'url',
  'server',
  'command',
  'env',
  'protocol',
  'path',
  'healthPath',
  'body',
  'form',
  'headers',
]
function inOrder(predictor: unknown): unknown {
  if (!isRecord(predictor)) return predictor
  const rest = Object.keys(predictor).filter((key) => !predictorOrder.includes(key))
  return Object.fromEntries(
    [...predictorOrder, ...rest].flatMap((key) =>
      predictor[key] === undefined ? [] : [[key, predictor[key]]],
    ),
  )
}

/** {percentile: p95, limit: 80ms} as p95<80ms. */
function shortSlo(slo: unknown): unknown {
  if (!isRecord(slo) || typeof slo.limit !== 'string') return slo
  const { percentile = 'p99', limit, ...rest } = slo
  return Object.keys(rest).length > 0
    ? slo
    : percentile === 'p99'
      ? limit
      : `${percentile}<${limit}`
}

const merged = (a: unknown, b: unknown): Draft | undefined =>
  a === undefined && b === undefined ? undefined : { ...(a as Draft), ...(b as Draft) }
const modelName = (model: unknown): string | undefined =>
  typeof model === 'string'
    ? model
    : isRecord(model)
      ? (model.name as string | undefined)
      : undefined
