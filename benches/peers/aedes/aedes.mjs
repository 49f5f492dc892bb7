#!/usr/bin/env node
// aedes as a broker that zzq_suite can start: PORT [FOLDER [sync]]. With a folder sessions and
// messages are kept there, in a LevelDB; with "sync" each write is flushed. It acknowledges a
// publish before it stores it, either way.
//
// It has no program of its own: this is the one of its documentation, with nothing left to choose.

import { createServer } from 'node:net'
import { argv } from 'node:process'
import { Aedes } from 'aedes'
import persistence from 'aedes-persistence-level'
import { Level } from 'level'
import aedes from './node_modules/aedes/package.json' with { type: 'json' }
import level from './node_modules/aedes-persistence-level/package.json' with { type: 'json' }

class Flushed extends Level {
  put (key, value, options) {
    return super.put(key, value, { ...options, sync: true })
  }

  batch (operations, options) {
    // Without operations it is a chain, by which only what was delivered is deleted.
    return operations ? super.batch(operations, { ...options, sync: true }) : super.batch()
  }
}

const [port, folder, sync] = argv.slice(2)
if (port === '--version') {
  console.log(`aedes ${aedes.version}, aedes-persistence-level ${level.version}`)
} else {
  const store = sync ? Flushed : Level
  const options = folder ? { persistence: persistence(new store(folder)) } : {}
  const broker = await Aedes.createBroker(options)
  createServer(broker.handle).listen(Number(port), '127.0.0.1')
}
