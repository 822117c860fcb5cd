"""A streaming table of the messages of the queue audit, and the number of messages of each type in it."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_sqlqueue.spark import register

spark = SparkSession.active()
register(spark)


@dp.table
def audit() -> DataFrame:
    return spark.readStream.format("sqlqueue").options(queue="audit", stream="lake").load()


@dp.materialized_view
def audit_by_type() -> DataFrame:
    types = sf.get_json_object("Headers", "$['NServiceBus.EnclosedMessageTypes']")
    return spark.read.table("audit").groupBy(types.alias("message_type")).count()
