import { describe, expect, test } from 'vitest'
import { LaunchError } from '../types.ts'
import { fillCommand, listTunedParts } from './fill.ts'
import { formatEnvironmentName, type TunedParameter } from './placeholders.ts'
import type { CommandTemplate } from './template.ts'
import { findTemplateProblems } from './template-problems.ts'

const template = (more: Partial<CommandTemplate> = {}): CommandTemplate => ({
  kind: 'command',
  model: 'm',
  command: ['serve', '--port', '${port}'],
  protocol: 'json',
  ...more,
})
const parameters: TunedParameter[] = [
  { name: 'maxBatchSize', category: 'env' },
  { name: 'workerClass', category: 'args' },
  { name: 'threads', category: 'server' },
  { name: 'cpuCores', category: 'resource' },
]
const configuration = { maxBatchSize: 8, workerClass: 'gthread', threads: 4, cpuCores: 2 }
const fill = (more: Partial<CommandTemplate>) =>
  fillCommand(template(more), parameters, configuration, { port: 9000, host: 'h', model: 'm' })

describe('a template filled with a configuration', () => {
  test('puts environment and arguments where they belong', () => {
    expect(fill({})).toMatchObject({
      argv: ['serve', '--port', '9000', '--workerClass=gthread'],
      env: { MAX_BATCH_SIZE: '8' },
    })
  })
  test('names variables as the server does', () => {
    expect(fill({ envNames: { maxBatchSize: 'MMS_BATCH' } }).env).toEqual({ MMS_BATCH: '8' })
  })
  test('writes arguments as the server wants them, where they are wanted', () => {
    const { argv } = fill({
      command: ['serve', '${args}', 'app:app'],
      argFormat: ['--${kebab-name}', '${value}'],
    })
    expect(argv).toEqual(['serve', '--worker-class', 'gthread', 'app:app'])
  })
  test.each(['../../x', '/etc', '..', 'a\0b'])(
    'a path that leaves the folder once %j is put in is refused, for this configuration',
    (value) => {
      const leaving = () =>
        fillCommand(
          template({ files: [{ path: '${shape}/f', template: '' }] }),
          [{ name: 'shape', category: 'server' }],
          { shape: value },
          { port: 1, host: 'h', model: 'm' },
        )
      expect(leaving).toThrow(/is not a path below the trial's folder/)
      expect(leaving).toThrow(expect.objectContaining({ final: 'configuration' }))
    },
  )
  test('fills files, environment and folder', () => {
    const filled = fill({
      env: { T: '${threads}x' },
      files: [{ path: 'a/${model}.conf', template: 'n=${threads}' }],
      cwd: '/srv/${model}',
    })
    expect(filled).toMatchObject({
      env: { T: '4x' },
      files: [{ path: 'a/m.conf', contents: 'n=4' }],
      cwd: '/srv/m',
    })
  })
  test('leaves escaped placeholders to the server', () => {
    expect(fill({ command: ['sh', '-c', 'echo $${HOME} ${threads}'] }).argv[2]).toBe(
      'echo ${HOME} 4',
    )
  })
  test('names everything that has no value', () => {
    expect(() => fill({ command: ['${one}', '${two}'] })).toThrow(LaunchError)
    expect(() => fill({ command: ['${one}', '${two}'] })).toThrow(/one, two/)
  })
  test('does not take a property every object has for a value', () => {
    expect(() => fill({ command: ['${toString}'] })).toThrow(/toString/)
  })
})

describe('what is wrong with a template is found before any trial', () => {
  const sound = template({ command: ['serve', '${port}', '${threads}'] })
  test('nothing', () => expect(findTemplateProblems(sound, parameters)).toEqual([]))
  test('unknown placeholders, each with its place', () => {
    const problems = findTemplateProblems(
      { ...sound, env: { A: '${batch}' }, files: [{ path: 'x', template: '${b}' }] },
      parameters,
    )
    expect(problems).toEqual([
      expect.stringMatching(/^env\.A: .*\$\{batch\}/),
      expect.stringMatching(/^files\[0\]\.template: .*\$\{b\}/),
    ])
  })
  test('a server parameter that reaches nothing', () => {
    expect(findTemplateProblems(template(), parameters)).toEqual([
      expect.stringContaining('parameter threads (server) never reaches the predictor'),
    ])
  })
  test('files outside the trial’s folder', () => {
    for (const path of ['/etc/passwd', '../x', 'a/../../x', '']) {
      expect(
        findTemplateProblems({ ...sound, files: [{ path, template: '' }] }, parameters),
      ).toHaveLength(1)
    }
  })
  test('an argument format of one’s own invention', () => {
    expect(findTemplateProblems({ ...sound, argFormat: ['--${NAME}'] }, parameters)).toEqual([
      expect.stringContaining('argFormat[0]'),
    ])
  })
  test('an empty command', () =>
    expect(findTemplateProblems(template({ command: [] }), [])).toEqual(['command: is empty']))
})

test.each([
  ['maxBatchSize', 'MAX_BATCH_SIZE'],
  ['max-batch-size', 'MAX_BATCH_SIZE'],
  ['gpuMemoryMiB', 'GPU_MEMORY_MIB'],
  ['OMP_NUM_THREADS', 'OMP_NUM_THREADS'],
  ['workers', 'WORKERS'],
])('%s is %s in the environment', (name, variable) =>
  expect(formatEnvironmentName(name)).toBe(variable),
)

test('the tuned parts of a template: arguments with the flag before them, variables, and what neither has', () => {
  const parts = listTunedParts(
    template({
      command: ['serve', '--port', '${port}', '--threads', '${threads}', '--batch=${batch}'],
      env: { OMP: '${threads}', HOME: '/root' },
      files: [{ path: 'queue.conf', template: '${queue}' }],
    }),
    ['threads', 'batch', 'queue'].map((name) => ({ name, category: 'server' })),
  )
  expect(parts.template).toMatchObject({
    command: ['--threads', '${threads}', '--batch=${batch}'],
    env: { OMP: '${threads}' },
    files: [],
  })
  expect(parts.elsewhere).toEqual(['queue'])
})
