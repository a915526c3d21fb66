/** `tune dashboard` as its user starts it. */
import { statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CliBox } from '../testing/run-cli.ts'
import { type SampleStore, sampleStore } from './samples.contract.ts'

describe('tune dashboard', () => {
  const box = new CliBox()
  let sample: SampleStore
  beforeAll(async () => {
    sample = await sampleStore()
  })
  afterAll(async () => {
    await sample.dispose()
    box.dispose()
  })

  test('says where it is, writes nothing, and ends with Ctrl-C', async () => {
    const before = statSync(sample.path).mtimeMs
    const { child, result, said } = box.start(['dashboard', '--db', sample.path, '--port', '0'])
    await said('Press Ctrl-C to stop')
    child.kill('SIGINT')
    const { code, stdout } = await result
    const url = stdout.trim()
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/#token=[\w-]{32}$/)
    expect(code).toBe(0)
    expect(statSync(sample.path).mtimeMs).toBe(before)
    expect(box.processes()).toEqual([])
  })

  test.each([
    [['--db', 'no-such.db'], 'no trial store at no-such.db'],
    [['--port', '99999'], '--port 99999 is not a port'],
    [['nobody'], 'no experiment "nobody"'],
  ])('%s is refused in words', async (args, words) => {
    const { code, stderr } = await box.run([
      'dashboard',
      ...(args.includes('--db') ? [] : ['--db', sample.path]),
      ...args,
    ])
    expect(code).toBe(2)
    expect(stderr).toContain(words)
  })

  test('a port that is taken is named, with what to do', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => other.once('listening', resolve))
    const { port } = other.address() as AddressInfo
    const { code, stderr } = await box.run([
      'dashboard',
      '--db',
      sample.path,
      '--port',
      String(port),
    ])
    other.close()
    expect(code).toBe(1)
    expect(stderr).toContain(`port ${port} is in use`)
  })
})
