/**
 * Runs command lines one after the other, as warm-cli.ts asks for them, in one process: as
 * tuner/cli.ts does, with what they print sent back. TUNE_TEST_COLUMNS is the width of the terminal
 * that they believe to print on.
 */
const { run } = await import('../../dist/tuner/cli/tune-program.js')

const streams = { stdout: process.stdout, stderr: process.stderr }
const own = process.env

process.on('message', async ({ args, cwd, env }) => {
  const said = { stdout: '', stderr: '' }
  for (const [name, stream] of Object.entries(streams)) {
    if (env.TUNE_TEST_COLUMNS === undefined) delete stream.columns
    else stream.columns = Number(env.TUNE_TEST_COLUMNS)
    stream.write = (chunk, encoding, done) => {
      said[name] += Buffer.from(chunk, typeof encoding === 'string' ? encoding : undefined).toString()
      const then = typeof encoding === 'function' ? encoding : done
      if (then) process.nextTick(then)
      return true
    }
  }
  process.chdir(cwd)
  process.env = { ...own, ...env }
  process.exitCode = undefined
  await run(args)
  const code = process.exitCode ?? 0
  process.exitCode = undefined
  process.send({ code, ...said })
})
process.on('disconnect', () => process.exit())
process.send('ready')
